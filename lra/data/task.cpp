// The list of tasks, filled by each task's registration line.
#include "lra/data/task.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "attention_variants/base/text.h"

namespace lra {
namespace {

std::map<std::string, Task>& registry() {
  static std::map<std::string, Task> tasks;
  return tasks;
}

std::vector<uint16_t> ids_of_text(std::string_view text, int64_t vocabulary) {
  std::vector<uint16_t> ids;
  while (!(text = strip(text)).empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(" \t\n\v\f\r"));
    const int64_t id = whole_number<int64_t>(word).value_or(-1);
    if (id < 0 || id >= vocabulary) {
      throw Error(
          fmt::format("ids should be from 0 to {}, not '{}'", vocabulary - 1, printable(word, 40)));
    }
    ids.push_back(static_cast<uint16_t>(id));
    text.remove_prefix(word.size());
  }
  return ids;
}

// Of a sample of a split. Throws Error without the place.
void check_one(const Task& task, const Split& split, int64_t index, int64_t side) {
  if (task.image) {
    for (int64_t j = 0; j < split.inputs(); ++j) {
      const int64_t pixels = split.length(index, j);
      if (pixels != side * side)
        throw Error(fmt::format("the image should have {0} x {0} pixels, not {1}", side, pixels));
    }
  }
  if (task.check_sample) task.check_sample(split.ids(index), split.label(index));
}

}  // namespace

std::vector<std::string> unlike_public(const Task& task, const Manifest& manifest) {
  if (manifest.synthetic) return {};
  json have = manifest.options;
  if (have.contains("train") && have.contains("dev"))
    have["train+dev"] = have["train"].get<int64_t>() + have["dev"].get<int64_t>();
  std::vector<std::string> unlike;
  for (const auto& [name, value] : task.public_data.items()) {
    if (have.contains(name) && have.at(name) != value)
      unlike.push_back(fmt::format("{} {}, not {}", name, text_from_value(have.at(name)),
                                   text_from_value(value)));
  }
  return unlike;
}

bool register_task(Task task) {
  const std::string name = task.name;
  if (!registry().emplace(name, std::move(task)).second) {
    throw Error("task '" + name + "' is registered twice");
  }
  return true;
}

std::vector<const Task*> tasks() {
  std::vector<const Task*> all;
  for (const auto& [name, task] : registry()) all.push_back(&task);
  return all;
}

const Task& task(const std::string& name) {
  const auto it = registry().find(name);
  if (it != registry().end()) return it->second;
  std::vector<std::string> names;
  for (const Task* known : tasks()) names.push_back(known->name);
  throw unknown_name("task", name, names);
}

Task task(const std::string& name, const Reading& reading) {
  Task read = task(name);
  if (reading.colours == Colours::rgb && !read.coloured)
    throw UsageError("input.colours should be grey: the task " + name + " has no colours");
  read.channels = channels_of(reading.colours);
  if (reading.brackets == Brackets::keep) return read;
  if (read.without_brackets.ids.empty())
    throw UsageError("input.brackets should be keep: the task " + name + " has no brackets");
  read.vocabulary = read.without_brackets.vocabulary;
  read.render = read.render_without_brackets;
  return read;
}

std::vector<std::vector<uint16_t>> sample_of_line(const Task& task, std::string_view line) {
  std::vector<std::vector<uint16_t>> sample;
  const auto sequences = static_cast<size_t>(task.sequences());
  for (bool more = true; more;) {
    const size_t tab = sequences == 1 ? std::string_view::npos : line.find('\t');
    const std::string_view text = line.substr(0, tab);
    sample.push_back(task.read_text ? task.read_text(text) : ids_of_text(text, task.vocabulary));
    if (sample.back().empty()) throw Error("there is nothing in it");
    more = tab != std::string_view::npos;
    if (more) line.remove_prefix(tab + 1);
  }
  if (sample.size() != sequences) {
    throw Error(fmt::format("a sample of {} should be {} sequences with a tab between them, not {}",
                            task.name, sequences, sample.size()));
  }
  return sample;
}

void check_samples(const PreparedData& data) {
  const Manifest& manifest = data.manifest();
  const Task& of = task(manifest.task);
  for (const char* name : kSplits) {
    const auto asked = manifest.options.find(name);
    const int64_t count = data.split(name).size();
    if (asked != manifest.options.end() && *asked != count)
      throw Error(
          fmt::format("{}: its manifest has {} samples of {} in its options, and there "
                      "are {}",
                      of.name, asked->dump(), name, count));
  }
  if (!of.image && !of.check_sample) return;
  const Split& first = data.split(kSplits[0]);
  // Pathfinder's may be of any size; CIFAR-10's are of one.
  const int64_t pixels = of.coloured ? of.length : first.size() > 0 ? first.length(0) : 0;
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(pixels)));
  const int64_t wanted = manifest.options.value("resolution", side);
  for (const char* name : kSplits) {
    const Split& split = data.split(name);
    for (int64_t i = 0; i < split.size(); ++i) {
      try {
        check_one(of, split, i, wanted);
      } catch (const Error& error) {
        throw Error(fmt::format("{}: sample {} of {}: {}", of.name, i, name, error.what()));
      }
    }
  }
}

PreparedData open_data(const std::filesystem::path& directory, const std::string& task_name,
                       bool check_hashes, std::optional<Reading> reading, OpenedSplits opened) {
  const bool coloured = task(task_name).coloured;
  PreparedData data(directory, task_name, check_hashes, opened);
  const Colours colours = coloured ? data.manifest().colours() : Colours::grey;
  if (!reading) reading = Reading{.colours = colours};
  const Task known = task(task_name, *reading);
  if (coloured && reading->colours != colours) {
    throw Error(
        fmt::format("the images in {} are {} and input.colours is {}: train with --set "
                    "input.colours={}, or give data that were prepared with --set colours={}",
                    (directory / task_name).string(), to_string(colours),
                    to_string(reading->colours), to_string(colours), to_string(reading->colours)));
  }
  const auto check = [&](const char* name, int64_t expected, int64_t found) {
    if (expected == found) return;
    throw Error(fmt::format("{}: {} of {} should be {}, not {}",
                            (directory / task_name / kManifestFile).string(), name, known.name,
                            expected, found));
  };
  // Of the files, which read_by() maps.
  check("vocabulary", task(task_name).vocabulary, data.manifest().vocabulary);
  check("classes", known.classes, data.manifest().classes);
  check("inputs", known.sequences(), data.manifest().inputs);
  check("labels at positions", known.position_labels, data.manifest().position_labels);
  if (reading->brackets == Brackets::drop) data.read_by(known.without_brackets);
  return data;
}

}  // namespace lra
