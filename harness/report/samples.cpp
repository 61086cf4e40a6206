#include "harness/report/samples.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "lra/data/task.h"
#include "lra/formats/image_files.h"
#include "results/records/file_names.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// Data folders by (folder, task, how they are read); null with the reason where they could not
// be opened.
struct Opened {
  std::unique_ptr<PreparedData> data;
  std::string reason;
};
using Cache = std::map<std::tuple<std::string, std::string, Reading>, Opened>;

// Of the values of each channel.
std::string picture(const std::vector<std::vector<int64_t>>& channels) {
  const size_t pixels = channels.front().size(), count = channels.size();
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(pixels))));
  Image image(side, side, static_cast<int64_t>(count));
  for (size_t c = 0; c < count; ++c) {
    if (channels[c].size() != pixels || side * side != static_cast<int64_t>(pixels))
      throw Error(fmt::format("a sample of {} pixels is no square image", channels[c].size()));
    for (size_t i = 0; i < pixels; ++i)
      image.pixels[count * i + c] = static_cast<uint8_t>(channels[c][i]);
  }
  return write_png(image);
}

const Opened& open(Cache& cache, const std::string& folder, const std::string& name,
                   const Reading& reading) {
  const auto [it, fresh] = cache.try_emplace({folder, name, reading});
  if (!fresh) return it->second;
  try {
    it->second.data =
        std::make_unique<PreparedData>(open_data(folder, name, /*check_hashes=*/false, reading));
  } catch (const std::exception& error) {
    it->second.reason = error.what();
  }
  return it->second;
}

// A value of a run's configuration, which may be older than the choice.
template <class Value>
Value value_of(const json& config, const char* path, Value before) {
  const json::json_pointer at(path);
  if (!config.contains(at) || !config.at(at).is_string()) return before;
  return parse_name<Value>(config.at(at).get<std::string>()).value_or(before);
}

Reading reading_of(const json& config) {
  return {.brackets = value_of(config, "/input/brackets", Brackets::keep),
          .colours = value_of(config, "/input/colours", Colours::grey)};
}

Sample read_sample(Cache& cache, const Result& r, int64_t index) {
  const fs::path config = fs::path(r.path).parent_path() / kConfigFile;
  if (!fs::exists(config))
    throw Error(fmt::format("no {} beside the record, which would name the data", kConfigFile));
  if (!fs::is_regular_file(config))
    throw Error(fmt::format("{} is no regular file", config.string()));
  const json saved = read_json(config);
  const json data = saved.is_object() ? saved.value("data", json::object()) : json::object();
  if (!data.is_object() || !data.contains("directory") || !data["directory"].is_string())
    throw Error(fmt::format("{} does not name the data's folder", config.string()));
  const std::string folder = data["directory"];
  if (!fs::exists(fs::path(folder) / r.task))
    throw Error(fmt::format("the run's data are no longer in {}", folder));
  const Reading reading = reading_of(saved);
  const Opened& opened = open(cache, folder, r.task, reading);
  if (!opened.data) throw Error(opened.reason);
  if (opened.data->manifest().fingerprint() != r.data.fingerprint)
    throw Error(fmt::format("the data in {} are others now than the run was tested on", folder));
  const Split& split = opened.data->split("test");
  const auto example = static_cast<size_t>(index);
  const bool at_positions = !r.predictions->samples.empty();
  if (at_positions) index = r.predictions->samples.at(example);
  if (index >= split.size() || at_positions != split.has_position_labels() ||
      (!at_positions && split.label(index) != r.predictions->labels.at(example)))
    throw Error(fmt::format("the labels in {} are not those of the predictions", folder));

  const Task known = task(r.task, reading);
  Sample sample;
  std::vector<std::vector<int64_t>> channels;
  for (int64_t sequence = 0; sequence < split.inputs(); ++sequence) {
    std::vector<int64_t> ids(static_cast<size_t>(split.length(index, sequence)));
    split.copy(index, sequence, static_cast<int64_t>(ids.size()), ids.data());
    if (known.image) {
      channels.push_back(std::move(ids));
      if (std::ssize(channels) < known.channels) continue;
      sample.png.push_back(picture(channels));
      channels.clear();
      continue;
    }
    const std::string text = known.render(std::vector<uint16_t>(ids.begin(), ids.end()));
    sample.text += (sequence > 0 ? "\n\n" : "") + text;
  }
  return sample;
}

}  // namespace

SampleReader prepared_samples() {
  const auto cache = std::make_shared<Cache>();
  return [cache](const Result& r, int64_t index) {
    try {
      return read_sample(*cache, r, index);
    } catch (const std::exception& error) {
      return Sample{.missing = error.what()};
    }
  };
}

}  // namespace lra
