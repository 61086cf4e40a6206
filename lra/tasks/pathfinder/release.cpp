// Pathfinder: the images of LRA's release, pathfinderR/<difficulty>/imgs/<N>/sample_<M>.png, listed
// in metadata/<N>.npy, which are lists in plain text.
//
// The split is that of S4 (github.com/state-spaces/s4), as in most later work: lists by number,
// their images shuffled by torch.randperm with seed 42, 80 / 10 / 10.
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "attention_variants/base/text.h"
#include "lra/data/reading.h"
#include "lra/data/thread_loop.h"
#include "lra/formats/copies.h"
#include "lra/formats/image_files.h"
#include "lra/formats/npy.h"
#include "lra/tasks/pathfinder/pathfinder.h"

namespace lra::pathfinder {
namespace {

namespace fs = std::filesystem;

constexpr size_t kColumns = 11;

struct Stored {
  std::string bytes;  // the PNG file
  bool listed = false;
};

struct Row {
  std::string image;  // "imgs/0/sample_0.png"
  int64_t label = 0;
};

// All files of one size and difficulty.
struct Files {
  std::string where;                               // what to put before a path for messages
  std::map<std::string, std::string> metadata;     // by path
  std::map<int64_t, std::string> lists;            // paths of metadata, by number
  std::unordered_map<std::string, Stored> images;  // by path
  std::string folder;                              // where they are in the source
  std::vector<std::string> notes;                  // of other copies
};

// A folder of the part and its path within the source.
struct PartFolder {
  fs::path path;
  std::string name;
};

// The folders of `part` ("pathfinder32/curv_baseline") in the folder given: that of the release,
// one it was unpacked to, or pathfinder32 itself. None where it lies deeper.
std::vector<PartFolder> folders_of(const fs::path& given, const fs::path& part) {
  const fs::path source = fs::absolute(given / "").lexically_normal().parent_path();
  const fs::path nested = fs::path("lra_release") / part;
  std::vector<PartFolder> folders;
  const auto add = [&](const fs::path& name) {
    const fs::path path = source / name;
    if (!fs::is_directory(path)) return;
    for (const PartFolder& known : folders) {
      if (fs::equivalent(known.path, path)) return;  // by a link
    }
    folders.push_back({.path = path, .name = name.string()});
  };
  for (const fs::path& name : {"lra_release" / nested, nested, part}) add(name);
  if (folders.empty() && source.filename() == part.parent_path()) add(part.filename());
  return folders;
}

// Takes one file, whose path within the part is `name`.
void take(SourceFile& file, const std::string& name, Files& files) {
  constexpr size_t kLongestList = 64 << 20, kLargestImage = 1 << 20;
  if (name.starts_with("imgs/") && name.ends_with(".png")) {
    files.images[name].bytes = file.read_all(kLargestImage);
  } else {
    files.metadata[name] = file.read_all(kLongestList);
  }
}

bool is_taken(const std::string& name) {
  return (name.starts_with("imgs/") && name.ends_with(".png")) ||
         (name.starts_with("metadata/") && name.ends_with(".npy"));
}

// Adds the files of the part, wherever in the source it lies; `wheres` gets what stands before
// their names in messages, by folder.
void visit_part(const PrepareOptions& options, const std::string& part, Files& files,
                Copies& copies, const std::vector<PartFolder>& folders,
                std::map<std::string, std::string>& wheres) {
  const VisitOptions visit = visit_options(options);
  const auto add = [&](SourceFile& file, const std::string& folder, const std::string& name) {
    if (!is_taken(name)) return;
    wheres[folder] = file.where().substr(0, file.where().size() - printable(name).size());
    copies.add(file, folder, name, [&](SourceFile& one) { take(one, name, files); });
  };
  for (const PartFolder& folder : folders) {
    Source(folder.path)
        .visit([&](SourceFile& file) { add(file, folder.name, file.name()); }, visit);
  }
  if (!folders.empty()) return;
  const std::string inside = "/" + part + "/";
  const auto use = [&](SourceFile& file) {
    const std::string name = "/" + file.name();
    const size_t at = name.find(inside), end = at + inside.size();
    if (at == std::string::npos) return;
    add(file, name.substr(1, end - 2), name.substr(end));
  };
  Source(options.source).visit(use, visit);
}

// The lists by their numbers.
void number_lists(Files& files) {
  for (const auto& [name, content] : files.metadata) {
    const std::string stem = fs::path(name).stem().string(), where = files.where + printable(name);
    const int64_t number = whole_number<int64_t>(stem).value_or(-1);
    if (number < 0) throw Error(where + ": lists should be named by numbers, as 0.npy");
    if (!files.lists.try_emplace(number, name).second)
      throw Error(where + ": there is another list of that number");
  }
}

Files read_files(const PrepareOptions& options, const std::string& part) {
  Files files;
  const Source source(options.source);
  const std::vector<PartFolder> folders =
      source.folder() ? folders_of(options.source, part) : std::vector<PartFolder>{};
  Copies copies(source, /*compare=*/folders.size() != 1);
  std::map<std::string, std::string> wheres;
  visit_part(options, part, files, copies, folders, wheres);
  const Copies::Choice choice = copies.finish();
  files.folder = choice.copy;
  files.notes = choice.notes;
  if (choice.copy.empty() && copies.folders().size() > 1) {
    throw Error(options.source.string() + " holds several folders " + part + " (" +
                printable(copies.folders()[0], 200) + " and " +
                printable(copies.folders()[1], 200) + "); give one of them");
  }
  if (choice.copy.empty() && !copies.folders().empty()) files.folder = copies.folders()[0];
  for (const std::string& name : choice.left_out) {
    files.images.erase(name);
    files.metadata.erase(name);
  }
  if (source.folder() && copies.folders().empty())
    throw Error(options.source.string() + " holds no folder " + part);
  if (files.metadata.empty())
    throw Error(options.source.string() + " holds no " + part + "/metadata/*.npy");
  files.where = wheres.at(files.folder);
  number_lists(files);
  return files;
}

// The rows of one list, split into columns; throws Error without the place.
std::vector<std::vector<std::string>> rows_of(const std::string& content,
                                              const std::string& where) {
  std::vector<std::vector<std::string>> rows;
  if (is_npy(content)) {
    const NpyArray array = read_npy(content, where);
    if (array.shape.size() != 2)
      throw Error(where + ": the .npy should have 2 dimensions, not " +
                  std::to_string(array.shape.size()));
    const std::vector<std::string> items = npy_strings(array, where);
    const auto columns = static_cast<size_t>(array.shape[1]);
    for (auto it = items.begin(); it != items.end(); it += array.shape[1])
      rows.emplace_back(it, it + static_cast<std::ptrdiff_t>(columns));
    return rows;
  }
  std::istringstream text(content);
  for (std::string line, word; std::getline(text, line);) {
    std::istringstream words(line);
    std::vector<std::string>& row = rows.emplace_back();
    while (words >> word) row.push_back(word);
  }
  return rows;
}

// What one row lists, or nothing where its image is empty.
std::optional<Row> read_row(const std::vector<std::string>& columns, Files& files) {
  if (columns.size() != kColumns) {
    throw Error("expected " + std::to_string(kColumns) +
                " columns (folder, file, number, label, ...), not " +
                std::to_string(columns.size()));
  }
  Row row{.image = columns[0] + "/" + columns[1]};
  if (columns[3] != "0" && columns[3] != "1")
    throw Error("the label should be 0 or 1, not '" + printable(columns[3], 40) + "'");
  row.label = columns[3] == "1";
  const auto it = files.images.find(row.image);
  if (it == files.images.end()) throw Error("there is no image " + printable(row.image, 200));
  if (it->second.listed) throw Error(printable(row.image, 200) + " is listed twice");
  it->second.listed = true;
  if (it->second.bytes.empty()) return std::nullopt;
  return row;
}

std::vector<uint8_t> decode(const std::string& bytes, int64_t side, const std::string& where) {
  lra::Image image = read_png(bytes, where);
  if (image.channels != 1 || image.width != side || image.height != side) {
    const auto text = [](int64_t width, int64_t height, const char* kind) {
      return std::to_string(width) + " x " + std::to_string(height) + " " + kind;
    };
    throw Error(where + " should be " + text(side, side, "grey") + " pixels, not " +
                text(image.width, image.height, image.channels == 1 ? "grey" : "coloured"));
  }
  return std::move(image.pixels);
}

// The rows of all lists whose images are not empty; the others are counted in `skipped`.
std::vector<Row> read_rows(Files& files, int64_t& skipped) {
  std::vector<Row> rows;
  for (const auto& [number, list] : files.lists) {
    const std::string where = files.where + printable(list);
    int64_t line = 0;
    for (const std::vector<std::string>& columns : rows_of(files.metadata.at(list), where)) {
      ++line;
      try {
        if (std::optional<Row> row = read_row(columns, files)) {
          rows.push_back(std::move(*row));
        } else {
          ++skipped;
        }
      } catch (const Error& error) {
        throw Error(where + ":" + std::to_string(line) + ": " + error.what());
      }
    }
  }
  return rows;
}

// Decodes the images of `chosen` and adds them to a split, a few thousand at a time.
void decode_split(const PrepareOptions& options, int64_t resolution, const Files& files,
                  const std::string& name, const std::vector<const Row*>& chosen,
                  SplitWriter& writer) {
  constexpr size_t kBatch = 4096;
  const auto count = static_cast<int64_t>(chosen.size());
  writer.reserve(count * resolution * resolution);
  for (size_t done = 0; done < chosen.size(); done += kBatch) {
    if (options.stop != nullptr && *options.stop)
      throw Error("stopped while reading " + options.source.string() + "; nothing was written");
    std::vector<std::vector<uint8_t>> batch(std::min(kBatch, chosen.size() - done));
    parallel_for(batch.size(), thread_count(options.threads), [&](size_t j) {
      const std::string& image = chosen[done + j]->image;
      batch[j] = decode(files.images.at(image).bytes, resolution, files.where + printable(image));
    });
    for (size_t j = 0; j < batch.size(); ++j) {
      writer.tokens(std::span<const uint8_t>(batch[j]));
      writer.label(chosen[done + j]->label);
    }
    if (options.progress)
      options.progress(static_cast<int64_t>(done + batch.size()), count, "decode " + name);
  }
}

constexpr int64_t kPublicImages = 200'000;  // of one resolution and difficulty

}  // namespace

Release read_release(const PrepareOptions& options, int64_t resolution,
                     const std::string& difficulty) {
  static const std::map<std::string, std::string> kFolders = {
      {"easy", "curv_baseline"},
      {"intermediate", "curv_contour_length_9"},
      {"hard", "curv_contour_length_14"}};
  Release release;
  release.part = "pathfinder" + std::to_string(resolution) + "/" + kFolders.at(difficulty);
  Files files = read_files(options, release.part);
  release.folder = files.folder;
  release.notes = files.notes;
  const std::vector<Row> rows = read_rows(files, release.skipped);
  // The order is drawn of all rows: one more or less changes every split.
  const int64_t listed = std::ssize(rows) + release.skipped;
  if (listed != kPublicImages) {
    release.notes.push_back(fmt::format(
        "WARNING: the lists name {} images, those of the public data {}: lists are missing or cut, "
        "and the splits are others",
        listed, kPublicImages));
  }
  // One image of easy is empty in the release itself.
  if (release.skipped > 1) {
    release.notes.push_back(fmt::format(
        "WARNING: {} images are empty, as of an unpacking that was cut short; the public data have "
        "one at most, and the splits are others",
        release.skipped));
  }
  const auto in_no_list = [](const auto& image) { return !image.second.listed; };
  if (const auto unlisted = std::ranges::count_if(files.images, in_no_list); unlisted > 0)
    release.notes.push_back(
        fmt::format("WARNING: {} images are in none of the lists, which name {}: lists are missing "
                    "or cut, and the splits are others than those of the whole release",
                    unlisted, rows.size()));

  const auto total = static_cast<int64_t>(rows.size());
  const torch::Tensor order =
      torch::randperm(total, at::make_generator<at::CPUGeneratorImpl>(42), torch::kInt64);
  const int64_t* next = order.const_data_ptr<int64_t>();
  const int64_t tenth = total / 10;
  const int64_t sizes[] = {total - 2 * tenth, tenth, tenth};
  const std::array<int64_t, 3> limits = options.counts();
  for (size_t i = 0; i < 3; ++i) {
    const std::string split = kSplits[i];
    check_rows(sizes[i], limits[i], options.source.string() + ": " + release.part, split);
    const int64_t count = limits[i] < 0 ? sizes[i] : limits[i];
    std::vector<const Row*> chosen;
    for (int64_t j = 0; j < count; ++j) chosen.push_back(&rows[static_cast<size_t>(next[j])]);
    decode_split(options, resolution, files, split, chosen, release.splits[split]);
    next += sizes[i];
  }
  return release;
}

}  // namespace lra::pathfinder
