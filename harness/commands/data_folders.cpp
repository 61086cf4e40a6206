#include "harness/commands/data_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "attention_variants/base/files.h"
#include "attention_variants/base/shell.h"
#include "attention_variants/base/text.h"
#include "harness/commands/commands.h"
#include "harness/host/progress.h"
#include "harness/suite/data.h"
#include "lra/data/contact_sheet.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// A prepared task on disk: DIR/<task>.
struct Folder {
  fs::path directory;
  std::string task;
};

// Whether a folder named as a task, without a manifest that can be read, held prepared data.
bool is_left_of_data(const fs::path& folder) {
  std::error_code none;
  if (fs::is_symlink(folder, none) && !fs::exists(folder, none)) return true;
  if (fs::is_symlink(folder / kManifestFile, none)) return true;
  for (const char* split : kSplits) {
    if (fs::exists(folder / (std::string(split) + ".safetensors"), none)) return true;
  }
  return false;
}

// Whether a folder holds prepared data, damaged ones too, and none of another program's manifest.
// Throws Error where it has another name than its task.
bool is_prepared(const fs::path& folder) {
  const fs::path manifest = folder / kManifestFile;
  const std::string name = folder.filename().string();
  const bool of_task =
      std::ranges::any_of(tasks(), [&](const Task* known) { return known->name == name; });
  std::error_code unreadable;
  if (!fs::exists(manifest, unreadable))
    return of_task && (unreadable || is_left_of_data(folder));  // else it is not ours
  if (of_task) return true;
  const json file = json::parse(read_file(manifest), nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || file.value("schema", json()) != kDataSchema) return false;
  throw Error(fmt::format("{0} holds the data of task {1}: rename it to {1}",
                          printable(folder.string()),
                          printable(Manifest::read(manifest).task, 100)));
}

// The prepared tasks under a folder: itself, or its subfolders with a manifest.
std::vector<Folder> prepared_folders(const fs::path& path) {
  const fs::path top = fs::absolute(path / "").lexically_normal().parent_path();
  if (!fs::is_directory(top)) throw Error("there is no folder " + path.string());
  if (is_prepared(top)) return {{top.parent_path(), top.filename().string()}};
  std::vector<Folder> folders;
  std::vector<std::string> passed_over;  // of another name than their task, as a kept copy
  std::string why;
  for (const fs::directory_entry& entry : fs::directory_iterator(top)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) continue;  // a preparation that runs now or was killed
    try {
      if (is_prepared(entry.path())) folders.push_back({path, name});
    } catch (const Error& error) {
      passed_over.push_back(printable(entry.path().string()));
      if (why.empty()) why = error.what();
    }
  }
  if (folders.empty() && !why.empty()) throw Error(why);
  for (const std::string& other : passed_over)
    host::say(fmt::format("passed over: {}, whose name is not that of its task", other));
  if (folders.empty()) {
    throw Error("no prepared data in " + path.string() +
                "; make it with: lra data prepare TASK --out " + shell_word(path.string()) +
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

std::string shortened(const std::string& text, size_t width) {
  const std::string_view begin = cut_text(text, width);
  return std::string(begin) + (begin.size() < text.size() ? " ..." : "");
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

}  // namespace

void prepare_folder(const std::string& name, const PrepareOptions& options) {
  begin_work_in_files();
  if (suite::prepare_data(name, options)) {
    host::say("already prepared: the files match their hashes and what was asked for");
  }
  print_summary(Manifest::read(options.out / name / kManifestFile), options.out / name);
}

void verify_folders(const fs::path& path) {
  const std::vector<Folder> folders = prepared_folders(path);
  std::string wrong;
  for (const auto& [directory, name] : folders) {
    try {
      const PreparedData data = open_data(directory, name, /*check_hashes=*/true);
      check_samples(data);
      print_summary(data.manifest(), directory / name);
    } catch (const Error& error) {
      if (folders.size() == 1) throw;
      host::say(error.what());
      wrong += (wrong.empty() ? "" : ", ") + name;
    }
  }
  if (!wrong.empty()) throw Error("not as they were prepared: " + wrong);
}

void show_samples(const fs::path& path, const std::string& split_name, int64_t count) {
  constexpr size_t kWidth = 400;
  for (const auto& [directory, name] : prepared_folders(path)) {
    const PreparedData data = open_data(directory, name, /*check_hashes=*/false);
    const Split& split = data.split(split_name);
    data.check_hash(split_name);
    fmt::print("{} {}: {} samples{}\n  source {}\n", name, split_name, split.size(),
               data.manifest().synthetic ? " (synthetic)" : "", printable(data.manifest().source));
    print_explanation(data.manifest());
    for (int64_t i = 0; i < std::min(count, split.size()); ++i) {
      fmt::print("#{} {}", i, labels_text(split, i));
      for (int64_t j = 0; j < split.inputs(); ++j) {
        const std::string text = task(name).render(split.ids(i, j));
        fmt::print(", {} tokens\n{}\n", split.length(i, j),
                   indented(task(name).image ? text : shortened(text, kWidth)));
      }
    }
  }
}

void draw_samples(const fs::path& path, const std::string& split_name, int64_t count,
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
  data.check_hash(split_name);
  const Image sheet = contact_sheet(data.split(split_name), count);
  write_file(file, write_png(sheet));
  fmt::print("{}: the first {} images of {} {}, labels below\n", printable(file.string()),
             std::min(count, data.split(split_name).size()), name, split_name);
}

void export_folders(const fs::path& path, const fs::path& out) {
  const auto folders = prepared_folders(path);
  const auto can = [](const Folder& folder) { return bool(task(folder.task).export_data); };
  if (std::ranges::none_of(folders, can)) {
    throw Error(
        folders.size() == 1
            ? fmt::format("task '{}' has no public file format to export to", folders.front().task)
            : fmt::format("none of the {} tasks in {} has a public file format to export to",
                          folders.size(), path.string()));
  }
  for (const auto& [directory, name] : folders) {
    if (!task(name).export_data) {
      fmt::print("task '{}' has no public file format to export to, not written\n", name);
      continue;
    }
    const PreparedData data(directory, name, /*check_hashes=*/true);
    check_samples(data);
    task(name).export_data(data, out / name);
    fmt::print("{}\n", printable((out / name).string()));
  }
}

}  // namespace lra
