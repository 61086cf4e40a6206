// lra help, and lra completion: what a shell needs to complete command lines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attention_variants/base/text.h"
#include "attention_variants/registry.h"
#include "harness/commands/commands.h"
#include "harness/commands/suite_options.h"
#include "lra/config/budget.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"

namespace lra {
namespace {

using Words = std::vector<std::string>;

const Words kShells = {"bash", "zsh", "fish"};

// The subcommands that are not hidden.
std::vector<CLI::App*> shown_commands(CLI::App& app) {
  return app.get_subcommands([](CLI::App* sub) { return !sub->get_group().empty(); });
}

void print_help(CLI::App& app, const Words& words) {
  CLI::App* command = &app;
  std::string path = app.get_name();
  for (const std::string& word : words) {
    Words names;
    CLI::App* found = nullptr;
    for (CLI::App* sub : shown_commands(*command)) {
      names.push_back(sub->get_name());
      if (sub->get_name() == word) found = sub;
    }
    if (found == nullptr) {
      if (names.empty()) throw UsageError(path + " has no command '" + word + "'");
      throw unknown_name("command", word, names, path);
    }
    command = found;
    path += " " + word;
  }
  fmt::print("{}", command->get_formatter()->make_help(command, path, CLI::AppFormatMode::Normal));
}

struct Named {
  std::string where;  // an option, or a command whose first word is a name
  Words names;
};

// A command line so far, "lra list", the words that may follow it, and its options that take a
// value: with those that are known, or none.
struct Followers {
  std::string path;
  Words words;
  std::vector<Named> values;
};

// Where names that are known here may stand.
std::vector<Named> named_values() {
  Words attentions, task_names;
  for (const AttentionEntry* entry : attention_entries()) attentions.push_back(entry->info.name);
  for (const Task* each : tasks()) task_names.push_back(each->name);
  return {{"--attention", attentions},
          {"--attentions", attentions},
          {"--task", task_names},
          {"--tasks", task_names},
          {"--protocol", protocol_names()},
          {"--budget", budget_names()},
          {"lra list attentions", attentions},
          {"lra list tasks", task_names},
          {"lra data prepare", task_names},
          {"lra protocol show", protocol_names()},
          {"lra protocol diff", protocol_names()},
          {"lra completion", kShells}};
}

// Of an option that takes one of several words, which CLI11 writes as "{a,b}" behind its type.
Words choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}', open);
  Words words;
  if (open == std::string::npos || close == std::string::npos) return words;
  for (const std::string& word : split_at_commas(type.substr(open + 1, close - open - 1)))
    words.emplace_back(strip(word));
  return words;
}

// Of a command, and what it takes of the one that it belongs to, as its help says.
std::vector<const CLI::Option*> options_taken(const CLI::App& app, const std::string& path) {
  std::vector<const CLI::Option*> options = app.get_options();
  if (!path.starts_with("lra suite ")) return options;
  for (const CLI::Option* option : app.get_parent()->get_options({})) {
    const std::string name = option->get_name();
    if (suite_takes(app.get_name(), name) && app.get_option_no_throw(name) == nullptr)
      options.push_back(option);
  }
  return options;
}

void collect(CLI::App& app, const std::string& path, const std::vector<Named>& named,
             std::vector<Followers>& all) {
  Followers here{.path = path};
  const auto names_of = [&named](const std::string& where) {
    const auto it = std::ranges::find(named, where, &Named::where);
    return it == named.end() ? Words() : it->names;
  };
  here.words = names_of(path);
  const std::vector<CLI::App*> commands = shown_commands(app);
  for (const CLI::App* sub : commands) here.words.push_back(sub->get_name());
  Followers help{.path = "lra help" + path.substr(std::string("lra").size()), .words = here.words};
  for (const CLI::Option* option : options_taken(app, path)) {
    if (option->get_group().empty()) continue;  // of our own processes
    for (const std::string& name : option->get_lnames()) {
      here.words.push_back("--" + name);
      if (option->get_items_expected_max() == 0) continue;
      Words known = names_of("--" + name);
      here.values.push_back({"--" + name, known.empty() ? choices_of(*option) : known});
    }
  }
  const bool is_help = path == "lra help";
  if (!is_help) all.push_back(std::move(here));
  if (!commands.empty()) all.push_back(std::move(help));
  for (CLI::App* sub : commands) collect(*sub, path + " " + sub->get_name(), named, all);
}

// "'lra train --task'|'lra check --task'" and the words, a pair for each list of words; behind
// them the options whose values are not known.
std::vector<std::pair<std::string, Words>> value_cases(const std::vector<Followers>& all,
                                                       const char* between) {
  std::map<Words, Words> options;  // by the words
  for (const Followers& each : all) {
    for (const auto& [option, words] : each.values)
      options[words].push_back(fmt::format("'{} {}'", each.path, option));
  }
  std::vector<std::pair<std::string, Words>> cases;
  for (const auto& [words, names] : options)
    cases.emplace_back(fmt::format("{}", fmt::join(names, between)), words);
  return cases;
}

std::string bash_script(const std::vector<Followers>& all) {
  std::string text =
      "_lra() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=lra "
      "word words=\n"
      "  for word in \"${COMP_WORDS[@]:1:$((COMP_CWORD-1))}\"; do\n"
      "    case \"$command $word\" in\n";
  Words paths;
  for (size_t i = 1; i < all.size(); ++i) paths.push_back(fmt::format("'{}'", all[i].path));
  text += fmt::format("      {}) command=\"$command $word\" ;;\n    esac\n  done\n",
                      fmt::join(paths, "|"));
  text += "  case \"$command $previous\" in\n";
  for (const auto& [options, words] : value_cases(all, "|"))
    text += fmt::format("    {}) words='{}' ;;\n", options, fmt::join(words, " "));
  text += "    *) case \"$command\" in\n";
  for (const Followers& each : all)
    text += fmt::format("      '{}') words='{}' ;;\n", each.path, fmt::join(each.words, " "));
  return text +
         "    esac ;;\n  esac\n"
         "  if [[ ${COMP_WORDS[0]} == ./run && $command == lra ]]; then words+=' test format'; fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _lra lra ./run\n";
}

std::string fish_script(const std::vector<Followers>& all) {
  Words paths;
  for (size_t i = 1; i < all.size(); ++i) paths.push_back(fmt::format("'{}'", all[i].path));
  std::string text = fmt::format(
      "function __lra_words\n"
      "  set -l words (commandline -opc)\n"
      "  set -l path lra\n"
      "  for word in $words[2..-1]\n"
      "    switch \"$path $word\"\n"
      "      case {}\n"
      "        set path \"$path $word\"\n"
      "    end\n"
      "  end\n"
      "  switch \"$path $words[-1]\"\n",
      fmt::join(paths, " "));
  for (const auto& [options, words] : value_cases(all, " ")) {
    text += fmt::format("    case {}\n", options);
    if (!words.empty()) text += fmt::format("      printf '%s\\n' {}\n", fmt::join(words, " "));
    text += "      return\n";
  }
  text += "  end\n  switch \"$path\"\n";
  for (const Followers& each : all) {
    text += fmt::format("    case '{}'\n      printf '%s\\n' {}\n", each.path,
                        fmt::join(each.words, " "));
  }
  return text + "  end\nend\ncomplete -c lra -a '(__lra_words)'\n";
}

void print_completion(CLI::App& app, const std::string& shell) {
  std::vector<Followers> all;
  collect(app, app.get_name(), named_values(), all);
  if (shell == "fish") {
    fmt::print("{}", fish_script(all));
    return;
  }
  if (shell == "zsh") fmt::print("autoload -U +X bashcompinit && bashcompinit\n");
  fmt::print("{}", bash_script(all));
}

}  // namespace

void add_help_command(CLI::App& app) {
  const auto words = std::make_shared<Words>();
  auto* help = app.add_subcommand("help", "Help of a command: lra help list attentions");
  help->add_option("COMMAND", *words, "The command; none: of lra itself");
  help->callback([&app, words] { print_help(app, *words); });
}

void add_completion_command(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  auto* completion = app.add_subcommand(
      "completion", "A script that completes lra's command lines: source <(lra completion bash)");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(kShells));
  completion->callback([&app, shell] { print_completion(app, *shell); });
}

}  // namespace lra
