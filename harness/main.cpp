// lra: the program. Parses the command line, runs one subcommand, turns errors into one line and an
// exit status.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

#include "attention_variants/base/file_errors.h"
#include "harness/commands/commands.h"
#include "harness/host/gpu.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/host/terminal.h"
#include "harness/processes/processes.h"

namespace {

// Freed tensors stay with the process: giving their pages back, only to have the next step fault
// them in anew, costs a tenth of a training step.
void keep_freed_pages() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);         // what is mapped by itself is unmapped when it is freed
  mallopt(M_TRIM_THRESHOLD, -1);  // never
#endif
}

int fail(const std::exception& error) {
  lra::host::say_error(lra::first_line(error));
  return lra::host::exit_status(error);
}

// What was printed has to arrive: on a full disk it does not, and none of what printed it may have
// been told.
int finish(int status) {
  std::fflush(stdout);
  const int error = errno;  // of this, or of a flush by what printed
  std::cout.flush();
  if (std::ferror(stdout) == 0 && std::cout.good()) return status;
  const bool known = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
  lra::host::say_error("cannot write standard output" +
                       (known
                            ? ": " + std::generic_category().message(error) + lra::advice_on(error)
                            : std::string("; is the disk full?")));
  return 1;
}

// An error of a stream that was written to: of standard output it is that which finish() looks for.
int fail_in_writing(const std::system_error& error) {
  if (std::ferror(stdout) == 0) return fail(error);
  const std::error_code code = error.code();
  lra::host::say_error("cannot write standard output: " + code.message() +
                       lra::advice_on(code.value()));
  return 1;
}

// CLI11 says that a word is not expected, or a subcommand missing, but not what was meant.
lra::UsageError with_nearest(const CLI::App& app, const CLI::ParseError& error) {
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!extras && dynamic_cast<const CLI::RequiredError*>(&error) == nullptr)
    return lra::UsageError(error.what());
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
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) continue;
    const size_t equals = words[i].find('=');
    const std::string option = words[i].substr(0, equals),
                      value = equals != std::string::npos ? words[i].substr(equals + 1)
                              : i + 1 < words.size()      ? words[i + 1]
                                                          : "VALUE";
    const bool sets = std::ranges::count(options, "--set") > 0;
    const auto meant = sets ? lra::settings_meant(option, value) : std::vector<std::string>();
    if (meant.empty()) return lra::unknown_name("option", option, options, path);
    return lra::UsageError(fmt::format("unknown option '{}' in {}; settings are given by --set: {}",
                                       option, path, fmt::join(meant, ", or ")));
  }
  std::vector<std::string> commands;
  for (const CLI::App* sub : command->get_subcommands({})) {
    if (!sub->get_group().empty()) commands.push_back(sub->get_name());  // it is no hidden one
  }
  if (!commands.empty()) {
    if (!words.empty()) return lra::unknown_name("command", words.front(), commands, path);
    std::string list;
    for (const std::string& name : commands) list += (list.empty() ? "" : ", ") + name;
    return lra::UsageError(path + " needs a command: " + list);
  }
  if (words.empty()) return lra::UsageError(error.what());
  return lra::UsageError("unexpected word '" + words.front() + "' after " + path + "; see " + path +
                         " --help");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "The Long Range Arena: train, measure and compare long-sequence attention.\n"
      "Wherever an attention is named, options may follow in brackets: nystrom[num_landmarks=32];\n"
      "torchscript:FILE.pt is a TorchScript module of your own.",
      "lra"};
  app.set_version_flag("--version", [] {
    const lra::json software = lra::host::software_json();
    std::string text = "lra " LRA_VERSION;
    for (const auto& [name, version] : software.items()) {
      if (name != "lra") text += fmt::format(" · {} {}", name, version.get<std::string>());
    }
    return text + fmt::format(" · cuda {} · mpi {} · nccl {}", lra::host::cuda_version(),
                              lra::mpi_version(), lra::nccl_version());
  });
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
  app.parse_complete_callback([&quiet, &wide] {
    lra::host::set_quiet(quiet);
    lra::host::set_wide(wide);
  });

  lra::add_list_command(app);
  lra::add_data_command(app);
  lra::add_protocol_command(app);
  lra::add_train_command(app);
  lra::add_evaluate_command(app);
  lra::add_suite_command(app);
  lra::add_profile_command(app);
  lra::add_fidelity_command(app);
  lra::add_report_command(app);
  lra::add_compare_command(app);
  lra::add_attend_command(app);
  lra::add_check_command(app);
  lra::add_help_command(app);
  lra::add_completion_command(app);

  lra::host::install_signal_handlers();
  lra::host::install_counting_allocator();
  keep_freed_pages();
  try {
    lra::host::load_cuda();
    app.parse(argc, argv);
    return finish(0);
  } catch (const CLI::Success& success) {  // --help, --version
    return finish(app.exit(success));
  } catch (const CLI::ParseError& error) {
    return lra::rank_zero_reports() ? 2 : fail(with_nearest(app, error));
  } catch (const lra::AlreadyReported& error) {
    return error.status();
  } catch (const std::system_error& error) {
    return fail_in_writing(error);
  } catch (const std::exception& error) {
    return fail(error);
  }
}
