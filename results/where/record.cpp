#include "results/where/record.h"

#include <cmath>

#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr auto where_op_fields = [](auto& f, auto& op) {
  f("kind", op.kind);
  f("op", op.op);
  f("part", op.part, Presence::sparse);
  f("pass", op.pass);
  f("calls", op.calls);
  f("ms", op.ms);
  f("flops", op.flops);
  f("bytes", op.bytes);
  f("roofline_share", op.roofline);
};

constexpr auto where_fields = [](auto& f, auto& record) {
  f.schema(kWhereSchema);
  f.part("attention", record.attention, make_attention_record, parse_attention_record);
  f("length", record.length, Presence::required, {.least = 1});
  f("batch", record.batch, Presence::required, {.least = 1});
  f("heads", record.heads, Presence::sparse, {.least = 1});
  f("head_dim", record.head_dim, Presence::sparse, {.least = 1});
  f("mode", record.mode);
  f("protocol", record.protocol);
  f("task", record.task);
  f("sets", record.sets, Presence::sparse);
  f("settings_sha256", record.settings_sha256, Presence::sparse);
  f("protocol_sha256", record.protocol_sha256, Presence::sparse);
  f("own_settings_sha256", record.own_settings_sha256, Presence::sparse);
  f("dtype", record.dtype);
  f("device", record.device);
  f("threads", record.threads);
  f("steps", record.steps, Presence::required, {.least = 1});
  f("step_ms", record.step_ms);
  f("recorded_ms", record.recorded_ms);
  f("recording_ms", record.recording_ms);
  f("ops_ms", record.ops_ms);
  f("outside_ms", record.outside_ms);
  f.part("roofline", record.roofline, make_roofline, parse_roofline, Presence::required);
  f.list("ops", record.ops, Presence::required, where_op_fields);
  f.part("machine", record.machine, make_machine, parse_machine, Presence::optional);
  f("software", record.software, Presence::optional);
};

}  // namespace

json make_where(const Where& record) { return write_record(record, where_fields); }

Where parse_where(const json& value) {
  Where record = read_record<Where>(value, "", where_fields);
  double sum = 0;
  for (const WhereOp& op : record.ops) sum += op.ms;
  if (!(std::abs(sum - record.ops_ms) <= 1e-4 * record.ops_ms)) {
    bad_record(fmt::format("field 'ops' adds up to {:.6g} ms, but 'ops_ms' is {:.6g}", sum,
                           record.ops_ms));
  }
  return record;
}

}  // namespace lra
