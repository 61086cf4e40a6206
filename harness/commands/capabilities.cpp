#include "harness/commands/capabilities.h"

#include <fmt/format.h>

#include "attention_variants/contract/contract.h"
#include "lra/model/model.h"

namespace lra {
namespace {

constexpr const char* kProtocol = "lra-strict";  // the default one

const char* word(Softmax softmax) {
  switch (softmax) {
    case Softmax::exact:
      return "exact";
    case Softmax::approximate:
      return "approximate";
    case Softmax::different:
      return "different";
  }
  return "";
}

// "yes", or what the clause measured.
std::string tried(const char* clause, const contract::ContractSubject& subject) {
  const contract::Verdict verdict = contract::check_clause(clause, subject);
  return verdict.holds ? "yes" : "no: " + verdict.measured;
}

json capability(const AttentionEntry& entry, const Protocol& protocol,
                const std::string& task_name) {
  const AttentionInfo& info = entry.info;
  const AttentionSpec spec{.name = info.name};
  contract::ContractSubject subject = contract::contract_subject(spec);
  const std::string mask = tried("padding invariance", subject),
                    bfloat16 = tried("types agree", subject);
  std::string cuda = "not tried";
  if (torch::cuda::is_available()) {
    subject.device = torch::kCUDA;
    cuda = tried("types agree", subject);
  }
  Model model(task(task_name), make_config(protocol, task_name, spec, {}, /*seed=*/0, "float32"));
  return {{"name", info.name},
          {"title", info.title},
          {"paper", info.paper},
          {"complexity", info.complexity},
          {"softmax", word(info.softmax)},
          {"budget", info.budget},
          {"linear_memory", info.linear},
          {"state", info.state},
          {"length_bound", info.length_bound},
          {"mask", mask},
          {"bfloat16", bfloat16},
          {"cuda", cuda},
          {"parameters", model.parameter_count()},
          {"parameters_of", protocol.name + ", " + task_name},
          {"peer", info.peer},
          {"options", entry.default_options}};
}

std::string yes_no(bool value) { return value ? "yes" : "no"; }

std::string or_none(const std::string& text) { return text.empty() ? "–" : text; }

}  // namespace

json capabilities() {
  const Protocol protocol = load_protocol(kProtocol);
  const std::string task_name = protocol.tasks.begin().key();
  json list = json::array();
  for (const AttentionEntry* entry : attention_entries())
    list.push_back(capability(*entry, protocol, task_name));
  return list;
}

Table capability_table(const json& list) {
  Table table{.title = "Attention variants",
              .columns = {{"attention", Align::kLeft},
                          {"complexity", Align::kLeft},
                          {"softmax", Align::kLeft},
                          {"budget", Align::kLeft},
                          {"linear memory"},
                          {"state beside the projections", Align::kLeft},
                          {"bound to a length"},
                          {"mask"},
                          {"bfloat16"},
                          {"CUDA"},
                          {"parameters"},
                          {"checked against", Align::kLeft}},
              .rows = {},
              .notes = {}};
  for (const json& item : list) {
    const auto text = [&item](const char* key) { return item[key].get<std::string>(); };
    table.rows.push_back(
        {text("name"), text("complexity"), text("softmax"), or_none(text("budget")),
         yes_no(item["linear_memory"]), or_none(text("state")), yes_no(item["length_bound"]),
         text("mask"), text("bfloat16"), text("cuda"),
         fmt::format("{}", item["parameters"].get<int64_t>()), or_none(text("peer"))});
  }
  table.notes = {
      "softmax: computes softmax attention over all tokens, approaches it with its budget, or is "
      "another function by design",
      "mask, bfloat16, CUDA: tried just now on small tensors (padding changes nothing; agrees with "
      "float64; the same on the device; not tried: no CUDA device here)",
      "parameters: of the whole model under " + list.front()["parameters_of"].get<std::string>(),
      "beside these, torchscript:FILE.pt is a TorchScript module of your own; lra check "
      "--attention torchscript:FILE.pt tries the contract on it"};
  return table;
}

}  // namespace lra
