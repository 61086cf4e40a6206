#include "harness/suite/suite_file.h"

#include "results/records/record_fields.h"

namespace lra::suite {
namespace {

json make_cut(double fraction) { return {{"fraction", fraction}}; }

double parse_cut(const json& value) {
  double fraction = 1;
  const RecordReader reader(value, "cut");
  reader("fraction", fraction, Presence::optional, {.most = 1});
  return fraction;
}

constexpr auto suite_fields = []<class Fields>(Fields& f, auto& file) {
  f.schema(kSuiteSchema);
  f("protocol", file.protocol);
  f("budget", file.budget);
  f("data", file.data);
  f("dtype", file.dtype);
  f("device", file.device);
  f("threads", file.threads);
  f("max_hours", file.max_hours, Presence::nullable);
  f.part("cut", file.fraction, make_cut, parse_cut, Presence::nullable);
  f("tasks", file.tasks);
  f("attentions", file.attentions);
  if (Fields::kReads || !file.folder.empty()) f("folder", file.folder, Presence::sparse);
  f("seeds", file.seeds);
  f("sets", file.sets);
  f("sources", file.sources, Presence::optional);
  f("synthetic", file.synthetic, Presence::optional);
  f("runs", file.runs);
  f("cells", file.cells);
};

}  // namespace

json make_suite_file(const SuiteFile& file) { return write_record(file, suite_fields); }

SuiteFile parse_suite_file(const json& value) {
  return read_record<SuiteFile>(value, "", suite_fields);
}

}  // namespace lra::suite
