// lra data prepare|verify|show|export.
#include <algorithm>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/commands/data_folders.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// Of all of its subcommands.
struct DataOptions {
  std::string task, split = "dev";
  fs::path path, out, png;
  int64_t count = -1;
  std::vector<std::string> sets;
  PrepareOptions prepare;
};
using SharedOptions = std::shared_ptr<DataOptions>;

// Options of the generators: how many samples of what kind.
void add_generator_options(CLI::App& command, PrepareOptions& p) {
  const auto add_count = [&](const char* name, int64_t& value, const char* text) {
    command.add_option(name, value, text)
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
        ->option_text("N");
  };
  add_count("--train", p.train, "Training samples (default: the task's own)");
  add_count("--dev", p.dev, "Development samples");
  add_count("--test", p.test, "Test samples");
  const auto add_length = [&](const char* name, int64_t& value, const char* text) {
    command.add_option(name, value, text)
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
        ->option_text("N");
  };
  add_length("--min-length", p.min_length,
             "ListOps: samples have more tokens than this (default 500)");
  add_length("--max-length", p.max_length,
             "ListOps: samples have fewer tokens than this (default 2000)");
  command
      .add_option("--resolution", p.resolution,
                  "Pathfinder: pixels a side, 32, 64, 128 or 256 (default 32)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->option_text("R");
  command
      .add_option("--difficulty", p.difficulty,
                  "Pathfinder: easy, intermediate or hard (default hard)")
      ->option_text("D");
}

void add_prepare_command(CLI::App& data, const SharedOptions& options) {
  CLI::App* command =
      data.add_subcommand("prepare", "Make or import the data of a task into DIR/TASK");
  PrepareOptions& p = options->prepare;
  command->add_option("task", options->task, "The task (see lra list tasks)")
      ->required()
      ->option_text("TASK");
  command->add_option("--out", p.out, "Folder to write to")->required()->option_text("DIR");
  command
      ->add_option("--source", p.source,
                   "Folder or archive (tar, gzip, xz, zip) of the public data, read in place; "
                   "without it the data is generated, where a task can be")
      ->option_text("PATH");
  command->add_option("--seed", p.seed, "Seed of what is drawn (default 0)")
      ->check(seed_text())
      ->option_text("S");
  add_generator_options(*command, p);
  command
      ->add_option(
          "--set", options->sets,
          "key=value of the task's own generator, as length=128 (repeatable, the last of a "
          "key counts; docs/data.md)")
      ->option_text("KEY=VALUE");
  command->add_flag("--synthetic", p.synthetic,
                    "A stand-in for data that cannot be had, made of --source; every "
                    "record and table says so");
  command
      ->add_option("--threads", p.threads,
                   "Threads; the result does not depend on it (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->option_text("T");
  command->callback([options, command] {
    options->prepare.seed_given = command->count("--seed") > 0;
    // "new/../data" needs no folder "new".
    if (std::ranges::count(options->prepare.out, fs::path("..")) > 0)
      options->prepare.out = fs::weakly_canonical(options->prepare.out);
    for (const std::string& text : options->sets) {
      const size_t equals = text.find('=');
      if (equals == 0 || equals == std::string::npos)
        throw UsageError("--set should be key=value, as length=128, not '" + text + "'");
      options->prepare.settings[text.substr(0, equals)] = value_from_text(text.substr(equals + 1));
    }
    prepare_folder(options->task, options->prepare);
  });
}

void add_verify_command(CLI::App& data, const SharedOptions& options) {
  CLI::App* command =
      data.add_subcommand("verify", "Check every hash and every sample's structure");
  command
      ->add_option("dir", options->path,
                   "Folder given to prepare --out, or one task's folder in it")
      ->required()
      ->option_text("DIR");
  command->callback([options] { verify_folders(options->path); });
}

void add_show_command(CLI::App& data, const SharedOptions& options) {
  CLI::App* command = data.add_subcommand("show", "Print samples");
  command
      ->add_option("dir", options->path,
                   "Folder given to prepare --out, or one task's folder in it")
      ->required()
      ->option_text("DIR");
  command->add_option("--split", options->split, "train, dev or test (default dev)")
      ->option_text("SPLIT");
  command->add_option("--count", options->count, "How many (default 5, of a sheet 40)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->option_text("N");
  command->add_option("--png", options->png, "Draw the images on one sheet, labels below, instead")
      ->option_text("FILE");
  command->callback([options, command] {
    const auto count = [&](int64_t unless_given) {
      return options->count < 0 ? unless_given : options->count;
    };
    if (options->png.empty()) {
      show_samples(options->path, options->split, count(5));
    } else {
      draw_samples(options->path, options->split, count(40), options->png);
    }
  });
}

void add_export_command(CLI::App& data, const SharedOptions& options) {
  CLI::App* command = data.add_subcommand(
      "export", "Write prepared ListOps back in its public format, to DIR2/TASK");
  command
      ->add_option("dir", options->path,
                   "Folder given to prepare --out, or one task's folder in it")
      ->required()
      ->option_text("DIR");
  command->add_option("--out", options->out, "Folder to write to")->required()->option_text("DIR2");
  command->callback([options, command] { export_folders(options->path, options->out); });
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Prepare, check and look at the data of a task");
  data->require_subcommand(1);
  const auto options = std::make_shared<DataOptions>();
  add_prepare_command(*data, options);
  add_verify_command(*data, options);
  add_show_command(*data, options);
  add_export_command(*data, options);
}

}  // namespace lra
