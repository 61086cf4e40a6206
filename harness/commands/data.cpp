// lra data prepare|verify|show|export.
#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/files.h"
#include "attention_variants/base/text.h"
#include "harness/commands/commands.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"
#include "harness/suite/data.h"
#include "lra/data/contact_sheet.h"
#include "lra/data/task.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// A prepared task on disk: DIR/<task>.
struct Folder {
  fs::path directory;
  std::string task;
};

// The prepared tasks under a folder: itself, or its subfolders with a manifest.
std::vector<Folder> prepared_folders(const fs::path& path) {
  const fs::path top = fs::absolute(path / "").lexically_normal().parent_path();
  if (!fs::is_directory(top)) throw Error("there is no folder " + path.string());
  if (fs::exists(top / "manifest.json")) return {{top.parent_path(), top.filename().string()}};
  std::vector<Folder> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(top)) {
    const std::string name = entry.path().filename().string();
    // A leading dot: a preparation that runs now or was killed.
    if (!name.starts_with('.') && fs::exists(entry.path() / "manifest.json"))
      folders.push_back({path, name});
  }
  if (folders.empty()) {
    throw Error("no prepared data in " + path.string() +
                "; make it with: lra data prepare TASK --out " + path.string() +
                ", and --source SOURCE where lra list tasks TASK names one");
  }
  std::ranges::sort(folders, {}, &Folder::task);
  return folders;
}

std::string counts_text(const Manifest& manifest) {
  std::string text;
  for (const char* split : kSplits) {
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", split, manifest.splits.at(split).count);
  }
  return text;
}

// What explains the splits: how they were made, and of which files of the source.
void print_explanation(const Manifest& manifest) {
  if (!manifest.split.empty()) fmt::print("  split {}\n", printable(manifest.split));
  for (const auto& [what, path] : manifest.members)
    fmt::print("  read {} as {}\n", printable(path), printable(what));
  for (const std::string& note : manifest.notes) fmt::print("  {}\n", printable(note));
}

void print_summary(const Manifest& manifest, const fs::path& folder) {
  fmt::print("{}: {}{}: {}\n  fingerprint {}\n  source {}\n  options {}\n",
             printable(folder.string()), manifest.task, manifest.synthetic ? " (synthetic)" : "",
             counts_text(manifest), manifest.fingerprint(), printable(manifest.source),
             printable(manifest.options.dump()));
  print_explanation(manifest);
}

void prepare(const std::string& name, const PrepareOptions& options) {
  host::stop_at_signals();
  if (suite::prepare_data(name, options)) {
    host::say("already prepared: the files match their hashes and what was asked for");
  }
  print_summary(Manifest::read(options.out / name / "manifest.json"), options.out / name);
}

void verify(const fs::path& path) {
  for (const auto& [directory, name] : prepared_folders(path)) {
    const PreparedData data = open_data(directory, name, /*check_hashes=*/true);
    print_summary(data.manifest(), directory / name);
  }
}

// At most `width` bytes, not cut within a character.
std::string shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  while (width > 0 && (static_cast<unsigned char>(text[width]) & 0xc0) == 0x80) --width;
  return text.substr(0, width) + " ...";
}

// Every line two spaces in.
std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

// "label 3"; or of positions "labels 7 at 12, 5 at 20".
std::string labels_text(const Split& split, int64_t index) {
  if (!split.has_position_labels()) return fmt::format("label {}", split.label(index));
  std::vector<int64_t> labels(static_cast<size_t>(split.length(index)));
  split.copy_labels(index, std::ssize(labels), labels.data());
  std::string text;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0)
      text += fmt::format("{} {} at {}", text.empty() ? "labels" : ",", labels[i], i);
  }
  return text;
}

void show(const fs::path& path, const std::string& split_name, int64_t count) {
  constexpr size_t kWidth = 400;
  for (const auto& [directory, name] : prepared_folders(path)) {
    const PreparedData data = open_data(directory, name, /*check_hashes=*/false);
    const Split& split = data.split(split_name);
    fmt::print("{} {}: {} samples\n", name, split_name, split.size());
    print_explanation(data.manifest());
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < std::min(count, split.size()); ++i) {
      fmt::print("#{} {}", i, labels_text(split, i));
      for (int64_t j = 0; j < split.inputs(); ++j) {
        const int64_t length = split.length(i, j);
        ids.resize(static_cast<size_t>(length));
        split.copy(i, j, length, ids.data());
        const std::string text = task(name).render(std::vector<uint16_t>(ids.begin(), ids.end()));
        fmt::print(", {} tokens\n{}\n", length,
                   indented(task(name).image ? text : shortened(text, kWidth)));
      }
    }
  }
}

void draw(const fs::path& path, const std::string& split_name, int64_t count,
          const fs::path& file) {
  const std::vector<Folder> folders = prepared_folders(path);
  if (folders.size() > 1) {
    throw UsageError("--png draws one task: give " + (path / folders.front().task).string() +
                     ", say");
  }
  const auto& [directory, name] = folders.front();
  const PreparedData data = open_data(directory, name, /*check_hashes=*/false);
  if (!task(name).image) {
    std::string images;
    for (const Task* known : tasks()) {
      if (known->image) images += (images.empty() ? "" : ", ") + known->name;
    }
    throw UsageError("--png draws the images of " + images + "; " + name + " has none");
  }
  const Image sheet = contact_sheet(data.split(split_name), count);
  write_file(file, write_png(sheet));
  fmt::print("{}: the first {} images of {} {}, labels below\n", printable(file.string()),
             std::min(count, data.split(split_name).size()), name, split_name);
}

void export_all(const fs::path& path, const fs::path& out) {
  for (const auto& [directory, name] : prepared_folders(path)) {
    const PreparedData data(directory, name, /*check_hashes=*/true);
    if (!task(name).export_data) {
      throw Error("task '" + name + "' has no public file format to export to");
    }
    task(name).export_data(data, out / name);
    fmt::print("{}\n", printable((out / name).string()));
  }
}

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
    command.add_option(name, value, text)->check(CLI::NonNegativeNumber)->option_text("N");
  };
  add_length("--min-length", p.min_length,
             "ListOps: samples have more tokens than this (default 500)");
  add_length("--max-length", p.max_length,
             "ListOps: samples have fewer tokens than this (default 2000)");
  command
      .add_option("--resolution", p.resolution,
                  "Pathfinder: pixels a side, 32, 64, 128 or 256 (default 32)")
      ->check(CLI::PositiveNumber)
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
  command->add_option("--seed", p.seed, "Seed of the generator (default 0)")
      ->check(seed_text())
      ->option_text("S");
  add_generator_options(*command, p);
  command
      ->add_option("--set", options->sets,
                   "key=value of the task's own generator, as length=128; may be given again "
                   "(docs/data.md)")
      ->option_text("KEY=VALUE");
  command->add_flag("--synthetic", p.synthetic,
                    "A stand-in for data that cannot be had, made of --source; every "
                    "record and table says so");
  command
      ->add_option("--threads", p.threads,
                   "Threads; the result does not depend on it (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->option_text("T");
  command->callback([options] {
    for (const std::string& text : options->sets) {
      const size_t equals = text.find('=');
      if (equals == 0 || equals == std::string::npos)
        throw UsageError("--set should be key=value, as length=128, not '" + text + "'");
      options->prepare.settings[text.substr(0, equals)] = value_from_text(text.substr(equals + 1));
    }
    prepare(options->task, options->prepare);
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
  command->callback([options] { verify(options->path); });
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
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  command->add_option("--png", options->png, "Draw the images on one sheet, labels below, instead")
      ->option_text("FILE");
  command->callback([options] {
    const auto count = [&](int64_t unless_given) {
      return options->count < 0 ? unless_given : options->count;
    };
    if (options->png.empty()) {
      show(options->path, options->split, count(5));
    } else {
      draw(options->path, options->split, count(40), options->png);
    }
  });
}

void add_export_command(CLI::App& data, const SharedOptions& options) {
  CLI::App* command =
      data.add_subcommand("export", "Write prepared data back in its public format, to DIR2/TASK");
  command
      ->add_option("dir", options->path,
                   "Folder given to prepare --out, or one task's folder in it")
      ->required()
      ->option_text("DIR");
  command->add_option("--out", options->out, "Folder to write to")->required()->option_text("DIR2");
  command->callback([options] { export_all(options->path, options->out); });
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
