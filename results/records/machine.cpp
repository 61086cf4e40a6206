#include "results/records/machine.h"

#include "attention_variants/base/text.h"
#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr double kMostGib = 1e12;  // of memory, as tables spell it out

constexpr auto machine_fields = []<class Fields>(Fields& f, auto& machine) {
  f("processor", machine.processor, Presence::optional);
  if (Fields::kReads || !machine.processor_model.empty())
    f("processor_model", machine.processor_model, Presence::sparse);
  f("cores", machine.cores, Presence::optional);
  if (Fields::kReads || machine.usable_cores > 0)
    f("usable_cores", machine.usable_cores, Presence::sparse);
  f("memory_gib", machine.memory_gib, Presence::optional, {.most = kMostGib});
  f("gpu", machine.gpu, Presence::nullable);
  if (Fields::kReads || !machine.gpu_driver.empty())
    f("gpu_driver", machine.gpu_driver, Presence::sparse);
  if (Fields::kReads || !machine.huge_pages.empty())
    f("huge_pages", machine.huge_pages, Presence::sparse);
};

}  // namespace

json make_machine(const Machine& machine) { return write_record(machine, machine_fields); }

Machine parse_machine(const json& value) {
  return read_record<Machine>(value, "machine", machine_fields);
}

std::string machine_text(const Machine& machine) {
  std::string text = machine.gpu;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (!machine.processor.empty()) add(machine.processor);
  if (machine.cores > 0) {
    const std::string part =
        machine.usable() < machine.cores ? fmt::format("{} of ", machine.usable()) : "";
    add(part + count_text(machine.cores, "core"));
  }
  if (machine.memory_gib > 0) add(fmt::format("{:.0f} GiB", machine.memory_gib));
  return text.empty() ? "unknown machine" : text;
}

}  // namespace lra
