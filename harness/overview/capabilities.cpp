#include "harness/overview/capabilities.h"

#include <fmt/format.h>

#include "attention_variants/contract/contract.h"
#include "lra/model/model.h"

namespace lra {
namespace {

constexpr const char* kNotTried = "not tried";

// "yes", or what the clause measured.
std::string tried(const char* clause, const contract::ContractSubject& subject) {
  const contract::Verdict verdict = contract::check_clause(clause, subject);
  return verdict.holds ? "yes" : "no: " + verdict.measured;
}

// Sets "mask", "bfloat16", "cuda" and "parameters".
void add_tried(json& item, const Protocol& protocol, const std::string& task_name) {
  const AttentionSpec spec{.name = item["name"].get<std::string>()};
  const Model model(task(task_name),
                    make_config(protocol, task_name, spec, {}, /*seed=*/0, "float32"));
  item["parameters"] = model.parameter_count();
  contract::ContractSubject subject = contract::contract_subject(spec);
  item["mask"] = tried("padding invariance", subject);
  item["bfloat16"] = tried("types agree", subject);
  if (!torch::cuda::is_available()) return;
  subject.device = torch::kCUDA;
  item["cuda"] = tried("types agree", subject);
}

json declared(const AttentionEntry& entry, const Protocol& protocol, const std::string& task_name) {
  const AttentionInfo& info = entry.info;
  return {{"name", info.name},
          {"title", info.title},
          {"paper", info.paper},
          {"complexity", info.complexity},
          {"softmax", info.softmax},
          {"budget", info.budget},
          {"linear_memory", info.linear},
          {"state", info.state},
          {"length_bound", info.length_bound},
          {"mask", kNotTried},
          {"bfloat16", kNotTried},
          {"cuda", kNotTried},
          {"parameters", nullptr},
          {"parameters_of", protocol.name + ", " + task_name},
          {"peer", info.peer},
          {"options", entry.default_options}};
}

std::string yes_no(bool value) { return value ? "yes" : "no"; }

std::string or_none(const std::string& text) { return text.empty() ? "–" : text; }

}  // namespace

json capabilities(Trying trying) {
  const Protocol protocol = load_protocol(kDefaultProtocol);
  const std::string task_name = protocol.tasks.begin().key();
  json list = json::array();
  for (const AttentionEntry* entry : attention_entries()) {
    list.push_back(declared(*entry, protocol, task_name));
    if (trying == Trying::yes) add_tried(list.back(), protocol, task_name);
  }
  return list;
}

Table capability_table(const json& list) {
  const bool tried = list.front()["mask"] != kNotTried;
  Table table{.title = "Attention variants",
              .columns = {{"attention", Align::kLeft},
                          {"complexity", Align::kLeft},
                          {"softmax", Align::kLeft},
                          {"budget", Align::kLeft},
                          {"linear memory"},
                          {"state beside the projections", Align::kLeft},
                          {"bound to a length"},
                          {"checked against", Align::kLeft}}};
  // Before the last.
  if (tried)
    table.columns.insert(table.columns.end() - 1,
                         {{"mask"}, {"bfloat16"}, {"CUDA"}, {"parameters"}});
  for (const json& item : list) {
    const auto text = [&item](const char* key) { return item[key].get<std::string>(); };
    table.rows.push_back({text("name"), text("complexity"), text("softmax"),
                          or_none(text("budget")), yes_no(item["linear_memory"]),
                          or_none(text("state")), yes_no(item["length_bound"]),
                          or_none(text("peer"))});
    auto& row = table.rows.back();
    if (tried)
      row.insert(row.end() - 1,
                 {text("mask"), text("bfloat16"), text("cuda"), item["parameters"].dump()});
  }
  table.notes = {
      "softmax: computes softmax attention over all tokens, approaches it with its budget, or is "
      "another function by design"};
  if (tried) {
    table.notes.emplace_back(
        "mask, bfloat16, CUDA: tried just now on small tensors (padding changes nothing; agrees "
        "with float64; the same on the device; not tried: no CUDA device here)");
    table.notes.push_back("parameters: of the whole model under " +
                          list.front()["parameters_of"].get<std::string>());
  } else {
    table.notes.emplace_back(
        "--try tries padding, bfloat16 and CUDA on small tensors and counts parameters, which "
        "takes "
        "some seconds");
  }
  table.notes.emplace_back(
      "beside these, python:FILE.py:Class is a class of your own, torchscript:FILE.pt a "
      "TorchScript "
      "module; lra check --attention python:FILE.py:Class tries the contract on it");
  return table;
}

}  // namespace lra
