// lra help, and lra completion: what a shell needs to complete command lines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "attention_variants/registry.h"
#include "harness/commands/commands.h"
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

// A command line so far, "lra list", and the words that may follow it.
struct Followers {
  std::string path;
  Words words;
};

struct Named {
  std::string where;  // an option, or a command whose first word is a name
  Words names;
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

void collect(CLI::App& app, const std::string& path, std::vector<Followers>& all) {
  Followers here{.path = path, .words = {}};
  for (const Named& each : named_values()) {
    if (each.where == path) here.words = each.names;
  }
  if (path == "lra help") here.words = all.front().words;
  const std::vector<CLI::App*> commands = shown_commands(app);
  for (const CLI::App* sub : commands) here.words.push_back(sub->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) here.words.push_back("--" + name);
  }
  all.push_back(std::move(here));
  for (CLI::App* sub : commands) collect(*sub, path + " " + sub->get_name(), all);
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
  text += "  case \"$previous\" in\n";
  for (const auto& [option, values] : named_values()) {
    if (option.starts_with('-'))
      text += fmt::format("    {}) words='{}' ;;\n", option, fmt::join(values, " "));
  }
  text += "    *) case \"$command\" in\n";
  for (const Followers& each : all)
    text += fmt::format("      '{}') words='{}' ;;\n", each.path, fmt::join(each.words, " "));
  return text +
         "    esac ;;\n  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _lra lra\n";
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
      "  switch $words[-1]\n",
      fmt::join(paths, " "));
  for (const auto& [option, values] : named_values()) {
    if (!option.starts_with('-')) continue;
    text += fmt::format("    case '{}'\n      printf '%s\\n' {}\n      return\n", option,
                        fmt::join(values, " "));
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
  collect(app, app.get_name(), all);
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
