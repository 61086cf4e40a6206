#include "harness/commands/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/text.h"
#include "attention_variants/base/utf8.h"
#include "attention_variants/python_host.h"
#include "attention_variants/registry.h"
#include "harness/commands/commands.h"
#include "harness/host/gpu.h"
#include "harness/host/memory.h"
#include "harness/host/pages.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/self_command.h"
#include "harness/host/signals.h"
#include "harness/host/terminal.h"
#include "harness/processes/processes.h"

namespace lra {
namespace {

// As if SIGPIPE had ended it (host::outlive_readers).
constexpr int kReaderGone = 128 + SIGPIPE;

int fail(const std::exception& error) {
  host::say_error(first_line(error));
  return host::exit_status(error);
}

// What was printed has to arrive: on a full disk it does not, and none of what printed it may have
// been told.
int finish(int status) {
  std::fflush(stdout);
  const int error = errno;  // of this, or of a flush by what printed
  std::cout.flush();
  if (std::ferror(stdout) == 0 && std::cout.good()) return status;
  if (host::reader_gone()) return status;
  const bool known = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
  host::say_error("cannot write standard output" +
                  (known ? ": " + std::generic_category().message(error) + advice_on(error)
                         : std::string("; is the disk full?")));
  return 1;
}

// An error of a stream that was written to: of standard output it is that which finish() looks for.
int fail_in_writing(const std::system_error& error) {
  if (std::ferror(stdout) == 0) return fail(error);
  const std::error_code code = error.code();
  if (host::reader_gone()) return code.value() == EPIPE ? kReaderGone : fail(error);
  host::say_error("cannot write standard output: " + code.message() + advice_on(code.value()));
  return 1;
}

// Of "Could not convert: --threads = x", which says nothing of what is wanted.
std::string unconverted(const CLI::App& app, const std::string& said) {
  const size_t name_at = said.find("--"), equals = said.find(" = ");
  if (name_at == std::string::npos || equals == std::string::npos || equals < name_at) return said;
  const std::string name = said.substr(name_at, equals - name_at);
  bool real = false;
  const CLI::App* command = &app;
  while (command != nullptr) {
    const CLI::Option* option = command->get_option_no_throw(name);
    real = real || (option != nullptr && option->get_type_name().starts_with("FLOAT"));
    const auto chosen = command->get_subcommands();
    command = chosen.empty() ? nullptr : chosen.front();
  }
  return fmt::format("{} should be {}, not '{}'", name, real ? "a number" : "an integer",
                     said.substr(equals + 3));
}

// CLI11 says that a word is not expected, or a subcommand missing, but not what was meant.
UsageError with_nearest(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
    return UsageError(unconverted(app, error.what()));
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!extras && dynamic_cast<const CLI::RequiredError*>(&error) == nullptr)
    return UsageError(error.what());
  const CLI::App* command = &app;
  std::string path = app.get_name();
  std::vector<std::string> options;
  const auto add_options = [&options](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        if (std::ranges::count(options, "--" + name) == 0) options.push_back("--" + name);
      }
    }
  };
  add_options(app);
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
    add_options(*command);
  }
  const std::vector<std::string> words = app.remaining(/*recurse=*/true);
  std::vector<std::string> commands;
  for (const CLI::App* sub : command->get_subcommands({})) {
    if (!sub->get_group().empty()) commands.push_back(sub->get_name());  // it is no hidden one
  }
  // Of a misspelt command the options are unknown, too.
  if (!commands.empty() && !words.empty() && !words.front().starts_with("-"))
    return unknown_name("command", words.front(), commands, path);
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) continue;
    const size_t equals = words[i].find('=');
    const std::string option = words[i].substr(0, equals),
                      value = equals != std::string::npos ? words[i].substr(equals + 1)
                              : i + 1 < words.size()      ? words[i + 1]
                                                          : "VALUE";
    const bool sets = std::ranges::count(options, "--set") > 0;
    const auto meant = sets ? settings_meant(option, value) : std::vector<std::string>();
    if (meant.empty()) return unknown_name("option", option, options, path);
    return UsageError(fmt::format("unknown option '{}' in {}; settings are given by --set: {}",
                                  option, path, fmt::join(meant, ", or ")));
  }
  if (!commands.empty()) {
    std::string list;
    for (const std::string& name : commands) list += (list.empty() ? "" : ", ") + name;
    return UsageError(path + " needs a command: " + list);
  }
  if (words.empty()) return UsageError(error.what());
  return UsageError("unexpected word '" + words.front() + "' after " + path + "; see " + path +
                    " --help");
}

// By what has been opened and locked until a class of Python was met nothing is lost: it is closed
// by now.
int go_on_under_python(char** argv) {
  std::fflush(nullptr);
  try {
    host::go_on_under_python(argv);
  } catch (const std::exception& error) {
    return fail(error);
  }
}

// CLI11 keeps what an option excludes in the order of addresses, which differs from call to call.
class SortedHelp : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    std::vector<std::string> names;
    for (const CLI::Option* other : option->get_excludes()) names.push_back(other->get_name());
    if (names.size() < 2) return text;
    std::ranges::sort(names);
    const std::string label = " " + get_label("Excludes") + ":";
    return text.substr(0, text.rfind(label)) + label + fmt::format(" {}", fmt::join(names, " "));
  }
};

// Records are JSON, and name the paths that they are given.
void check_letters(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!is_utf8(argv[i]))
      throw UsageError(fmt::format(
          "'{}' is not UTF-8, which records are written in; give the file or folder another name",
          printable(argv[i])));
  }
}

// Values that CLI11 takes for none, or for another number than they look like.
void check_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const bool integer = option->get_type_name().find("INT") != std::string::npos;
    for (const std::string& value : option->results()) {
      if (value.empty()) {
        throw CLI::ValidationError(fmt::format(
            "{} is empty, which is not the same as without it: give a value, or leave it "
            "out",
            option->get_name()));
      }
      const std::string_view number = strip(value);
      const size_t digits = number.starts_with('-') || number.starts_with('+') ? 1 : 0;
      if (integer && number.size() > digits + 1 && number[digits] == '0' &&
          std::isdigit(static_cast<unsigned char>(number[digits + 1])) != 0) {
        throw CLI::ValidationError(fmt::format(
            "{} should be an integer without zeros in front, not {}", option->get_name(), value));
      }
    }
  }
  for (const CLI::App* sub : app.get_subcommands()) check_values(*sub);
}

std::string version_line() {
  const json software = host::software_json();
  std::string text = "lra " LRA_VERSION;
  for (const auto& [name, version] : software.items()) {
    if (name != "lra" && name != "cuda")
      text += fmt::format(" · {} {}", name, version.get<std::string>());
  }
  return text + fmt::format(" · cuda {} · mpi {} · nccl {}", host::cuda_version(), mpi_version(),
                            nccl_version());
}

}  // namespace

void begin_work_in_files() {
  host::stop_at_signals();
  host::outlive_readers();
}

int run_program(int argc, char** argv) {
  host::flush_denormals();  // before there are threads
  host::keep_float32();
  CLI::App app{
      "The Long Range Arena: train, measure and compare long-sequence attention.\n"
      "Wherever an attention is named, options may follow in brackets: nystrom[num_landmarks=32];\n"
      "python:FILE.py:Class and torchscript:FILE.pt are modules of your own.",
      "lra"};
  app.formatter(std::make_shared<SortedHelp>());  // before the commands, which take it over
  app.set_version_flag("--version", version_line);
  bool quiet = false;
  app.add_flag("--quiet", quiet, "No progress and no notes on stderr, errors alone");
  bool wide = false;
  app.add_flag(
      "--wide", wide,
      "Tables on a terminal as wide as they are; without, columns that say the same in every "
      "row are named below and cells wrap. Where standard output is no terminal, tables are "
      "always whole");
  app.require_subcommand(1);
  app.fallthrough();
  app.parse_complete_callback([&app, &quiet, &wide] {
    check_values(app);
    host::set_quiet(quiet);
    host::set_wide(wide);
  });

  add_list_command(app);
  add_data_command(app);
  add_protocol_command(app);
  add_train_command(app);
  add_evaluate_command(app);
  add_predict_command(app);
  add_suite_command(app);
  add_tune_command(app);
  add_profile_command(app);
  add_fidelity_command(app);
  add_report_command(app);
  add_compare_command(app);
  add_attend_command(app);
  add_check_command(app);
  add_selfcheck_command(app);
  add_help_command(app);
  add_completion_command(app);

  host::install_signal_handlers();
  host::install_counting_allocator();
  host::keep_freed_pages();
  try {
    check_letters(argc, argv);
    check_registrations();
    host::load_cuda();
    app.parse(argc, argv);
    return finish(0);
  } catch (const NeedsPython&) {
    return go_on_under_python(argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return finish(app.exit(success));
  } catch (const CLI::ParseError& error) {
    return rank_zero_reports() ? 2 : fail(with_nearest(app, error));
  } catch (const AlreadyReported& error) {
    return error.status();
  } catch (const std::system_error& error) {
    return fail_in_writing(error);
  } catch (const std::exception& error) {
    return fail(error);
  }
}

}  // namespace lra
