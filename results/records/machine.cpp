#include "results/records/machine.h"

#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr double kMostGib = 1e12;  // of memory, as tables spell it out

}  // namespace

json make_machine(const Machine& machine) {
  return {{"processor", machine.processor},
          {"cores", machine.cores},
          {"usable_cores", machine.usable_cores > 0 ? json(machine.usable_cores) : json(nullptr)},
          {"memory_gib", finite_or_null(machine.memory_gib)},
          {"gpu", machine.gpu.empty() ? json(nullptr) : json(machine.gpu)}};
}

Machine parse_machine(const json& machine) {
  const RecordReader reader(machine, "machine");
  return {.processor = reader.text_or("processor", ""),
          .cores = reader.integer_if("cores", 0).value_or(0),
          .usable_cores = reader.integer_if("usable_cores", 0).value_or(0),
          .memory_gib = reader.number_if("memory_gib", 0, kMostGib).value_or(0),
          .gpu = reader.text_or("gpu", "")};
}

std::string machine_text(const Machine& machine) {
  std::string text = machine.gpu;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (!machine.processor.empty()) add(machine.processor);
  if (machine.cores > 0) {
    const std::string part =
        machine.usable() < machine.cores ? fmt::format("{} of ", machine.usable()) : "";
    add(fmt::format("{}{} core{}", part, machine.cores, machine.cores == 1 ? "" : "s"));
  }
  if (machine.memory_gib > 0) add(fmt::format("{:.0f} GiB", machine.memory_gib));
  return text.empty() ? "unknown machine" : text;
}

}  // namespace lra
