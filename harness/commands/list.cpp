// lra list attentions|tasks|protocols, and lra protocol show|diff.
#include <fmt/format.h>

#include "attention_variants/base/fields.h"
#include "harness/commands/commands.h"
#include "harness/commands/describe.h"
#include "harness/host/runtime.h"
#include "harness/host/terminal.h"
#include "harness/overview/capabilities.h"
#include "harness/overview/protocol_words.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"
#include "results/print/terminal.h"

namespace lra {
namespace {

json tasks_json() {
  json list = json::array();
  for (const Task* task : tasks()) {
    list.push_back({{"name", task->name},
                    {"title", task->title},
                    {"description", task->description},
                    {"classes", task->classes},
                    {"vocabulary", task->vocabulary},
                    {"inputs", task->inputs},
                    {"length", task->length}});
  }
  return list;
}

json protocols_json() {
  json list = json::array();
  for (const std::string& name : protocol_names()) {
    const Protocol protocol = load_protocol(name);
    list.push_back({{"name", name},
                    {"title", protocol.title},
                    {"description", protocol.description},
                    {"source", protocol.source},
                    {"regime", protocol.regime}});
  }
  return list;
}

// `text` after `first`; where a terminal makes it several lines, they begin below it.
void print_indented(const std::string& first, const std::string& text) {
  const size_t columns = host::table_columns();
  const size_t width = columns > first.size() ? columns - first.size() : columns;
  std::string indent = first;
  for (const std::string& line : wrapped(text, width)) {
    fmt::print("{}{}\n", indent, line);
    indent.assign(first.size(), ' ');
  }
}

// `above`: what is said of it already.
void print_item(const json& item, const std::string& above = "") {
  fmt::print("{}\n", item["name"].get<std::string>());
  for (const auto& [key, value] : item.items()) {
    if (key == "name" || key == above) continue;
    print_indented(fmt::format("  {:<12} ", key), text_from_value(value));
  }
}

void list_tasks(bool as_json) {
  const json list = tasks_json();
  if (as_json) {
    print_json(list);
    return;
  }
  for (const json& item : list) print_item(item);
}

void list_protocols(bool as_json) {
  const json list = protocols_json();
  if (as_json) {
    print_json(list);
    return;
  }
  for (const auto& [regime, meaning] : kRegimes) {
    print_indented("", fmt::format("Regime {}: {}", regime, meaning));
    for (const json& item : list) {
      if (item["regime"] == regime) print_item(item, "regime");
    }
    fmt::print("\n");
  }
  print_indented("", "Results of one regime are never ranked with those of another.");
}

// JSON on one line that can be broken between its fields.
std::string spaced(const json& value) {
  std::string text;
  for (const auto& [key, field] : value.items())
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ", ", key, field.dump());
  return "{" + text + "}";
}

Table released_table() {
  Table table{.title = "Released forms",
              .columns = {{"name", Align::kLeft},
                          {"stands for", Align::kLeft},
                          {"complexity", Align::kLeft},
                          {"state", Align::kLeft},
                          {"options and their defaults", Align::kLeft}},
              .notes = {"other functions than the papers', by the code that LRA released: the "
                        "protocol tay2020 means them by the names that they stand for"}};
  for (const AttentionEntry* entry : released_forms()) {
    const AttentionInfo& info = entry->info;
    table.rows.push_back({info.name, info.released_form_of, info.complexity,
                          info.state.empty() ? "–" : info.state, entry->default_options.dump()});
  }
  return table;
}

struct AttentionsForm {
  std::string name;
  bool json = false, markdown = false, tried = false;
};

void list_attentions(const AttentionsForm& form) {
  if (form.tried) host::use_threads(1);  // small tensors: more threads only wait for each other
  const json list = capabilities(form.tried ? Trying::yes : Trying::no);
  if (form.json) {
    print_json(list);
    return;
  }
  const Table table = capability_table(list);
  if (!form.markdown) {
    const size_t columns = host::table_columns();
    fmt::print("{}\n", to_terminal(table, columns));
    for (const json& item : list) {
      print_indented(
          "", fmt::format("{}: {}, {}", item["name"].get<std::string>(),
                          item["title"].get<std::string>(), item["paper"].get<std::string>()));
      print_indented("  ", columns > 0 ? spaced(item["options"]) : item["options"].dump());
    }
    fmt::print("\n{}", to_terminal(released_table(), columns));
    return;
  }
  fmt::print("{}\n| attention | paper | options and their defaults |\n|---|---|---|\n",
             to_markdown(table));
  for (const json& item : list) {
    fmt::print("| {} | {} | `{}` |\n", item["name"].get<std::string>(),
               item["paper"].get<std::string>(), item["options"].dump());
  }
  fmt::print("\n{}", to_markdown(released_table()));
}

// What a protocol holds: all tasks, or one, as a file that --protocol takes; with a task and an
// attention a run's whole configuration.
json shown(const std::string& protocol_name, const std::string& task_name,
           const std::string& attention) {
  const Protocol protocol = load_protocol(protocol_name);
  if (!attention.empty()) {
    if (task_name.empty())
      throw UsageError("--attention needs --task: together they make a run's configuration");
    return make_config(protocol, task_name, parse_attention(attention), {}, 0, "float32").to_json();
  }
  return protocol_json(protocol, task_name);
}

}  // namespace

void add_list_command(CLI::App& app) {
  auto* list = app.add_subcommand("list", "What there is: attentions, tasks, protocols");
  list->require_subcommand(1);
  auto* attentions = list->add_subcommand(
      "attentions", "What every attention variant is and can do, with its options and defaults");
  auto form = std::make_shared<AttentionsForm>();
  auto* as_json = attentions->add_flag("--json", form->json, "As JSON");
  auto* as_markdown = attentions
                          ->add_flag("--markdown", form->markdown,
                                     "As Markdown; with --try as docs/attentions.md holds it")
                          ->excludes(as_json);
  auto* tried =
      attentions->add_flag("--try", form->tried,
                           "Try padding, bfloat16 and CUDA on small tensors, and count parameters");
  attentions
      ->add_option("NAME", form->name, "One alone: what each of its options means, takes and is")
      ->excludes(as_json)
      ->excludes(as_markdown)
      ->excludes(tried);
  attentions->callback([form] {
    if (form->name.empty()) {
      list_attentions(*form);
    } else {
      print_attention(form->name);
    }
  });
  auto* of_tasks = list->add_subcommand("tasks", "Tasks");
  auto task_name = std::make_shared<std::string>();
  auto tasks_as_json = std::make_shared<bool>(false);
  auto* task_json = of_tasks->add_flag("--json", *tasks_as_json, "As JSON");
  of_tasks
      ->add_option("NAME", *task_name, "One alone: what each of its settings means, takes and is")
      ->excludes(task_json);
  of_tasks->callback([task_name, tasks_as_json] {
    if (task_name->empty()) {
      list_tasks(*tasks_as_json);
    } else {
      print_task(*task_name);
    }
  });
  auto* protocols = list->add_subcommand("protocols", "Protocols, by regime");
  auto protocols_as_json = std::make_shared<bool>(false);
  protocols->add_flag("--json", *protocols_as_json, "As JSON");
  protocols->callback([protocols_as_json] { list_protocols(*protocols_as_json); });
}

void add_protocol_command(CLI::App& app) {
  struct Options {
    std::string protocol, other, task, attention, key;
    bool words = false, lines = false;
    ProtocolPart part() const { return {.task = task, .attention = attention}; }
  };
  auto* command = app.add_subcommand("protocol", "Show a protocol, or what differs between two");
  command->require_subcommand(1);
  auto options = std::make_shared<Options>();

  auto* show = command->add_subcommand(
      "show", "Every effective value of a protocol, as JSON that --protocol takes");
  show->add_option("PROTOCOL", options->protocol, "Name, or path to a JSON file")->required();
  auto* key = show->add_option(
      "KEY", options->key,
      "A setting, training.steps, or a group of them: what it means, takes and is in each task");
  show->add_option("--task", options->task, "Of this task alone")->excludes(key);
  show->add_option("--attention", options->attention,
                   "With --task: a run's whole configuration with this attention")
      ->excludes(key);
  show->add_flag("--words", options->words,
                 "In words: what it follows, what differs and why, which variant runs for a name, "
                 "and what it sets, by task and variant")
      ->excludes(key);
  show->callback([options] {
    if (!options->key.empty()) {
      print_setting(options->protocol, options->key);
      return;
    }
    if (options->words) {
      fmt::print("{}", protocol_words(load_protocol(options->protocol), options->part()));
      return;
    }
    print_json(shown(options->protocol, options->task, options->attention));
  });

  auto* diff = command->add_subcommand("diff", "What differs and why, by task and variant");
  diff->add_option("P", options->protocol, "Name, or path to a JSON file")->required();
  diff->add_option("Q", options->other, "Name, or path to a JSON file")->required();
  diff->add_option("--task", options->task, "For this task alone");
  diff->add_option("--attention", options->attention,
                   "With --task: a run's whole configuration with this attention");
  diff->add_flag("--lines", options->lines,
                 "For programs: one line a field of the two as JSON, \"path: a -> b\"");
  diff->callback([options] {
    if (!options->lines) {
      fmt::print("{}", difference_words(load_protocol(options->protocol),
                                        load_protocol(options->other), options->part()));
      return;
    }
    for (const std::string& line :
         differences(shown(options->protocol, options->task, options->attention),
                     shown(options->other, options->task, options->attention))) {
      fmt::print("{}\n", line);
    }
  });
}

}  // namespace lra
