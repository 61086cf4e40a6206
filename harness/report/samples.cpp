#include "harness/report/samples.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "lra/data/task.h"
#include "lra/formats/image_files.h"
#include "results/records/run_folder.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// Data folders by (folder, task, how brackets are read); null with the reason where they could not
// be opened.
struct Opened {
  std::unique_ptr<PreparedData> data;
  std::string reason;
};
using Cache = std::map<std::tuple<std::string, std::string, Brackets>, Opened>;

std::string picture(const std::vector<int64_t>& ids) {
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(ids.size()))));
  if (side * side != static_cast<int64_t>(ids.size()))
    throw Error(fmt::format("a sample of {} pixels is no square image", ids.size()));
  Image image(side, side, 1);
  for (size_t i = 0; i < ids.size(); ++i) image.pixels[i] = static_cast<uint8_t>(ids[i]);
  return write_png(image);
}

const Opened& open(Cache& cache, const std::string& folder, const std::string& name,
                   Brackets brackets) {
  const auto [it, fresh] = cache.try_emplace({folder, name, brackets});
  if (!fresh) return it->second;
  try {
    it->second.data =
        std::make_unique<PreparedData>(open_data(folder, name, /*check_hashes=*/false, brackets));
  } catch (const std::exception& error) {
    it->second.reason = error.what();
  }
  return it->second;
}

// Of a run's configuration, which may be of before there was a choice.
Brackets brackets_of(const json& config) {
  const json::json_pointer at("/input/brackets");
  if (!config.contains(at) || !config.at(at).is_string()) return Brackets::keep;
  return parse_name<Brackets>(config.at(at).get<std::string>()).value_or(Brackets::keep);
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
  const Brackets brackets = brackets_of(saved);
  const Opened& opened = open(cache, folder, r.task, brackets);
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

  const Task known = task(r.task, brackets);
  Sample sample;
  for (int64_t input = 0; input < split.inputs(); ++input) {
    std::vector<int64_t> ids(static_cast<size_t>(split.length(index, input)));
    split.copy(index, input, static_cast<int64_t>(ids.size()), ids.data());
    if (known.image) {
      sample.png.push_back(picture(ids));
      continue;
    }
    const std::string text = known.render(std::vector<uint16_t>(ids.begin(), ids.end()));
    sample.text += (input > 0 ? "\n\n" : "") + text;
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
