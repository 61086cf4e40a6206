#include "harness/tune/tune_file.h"

#include <fmt/format.h>

#include "attention_variants/base/files.h"
#include "results/records/record_fields.h"

namespace lra::tune {
namespace {

constexpr auto tuned_cell_fields = [](auto& f, auto& cell) {
  f("attention", cell.attention);
  f("point", cell.point);
  f("seed", cell.seed);
  f("run", cell.run);
  f("status", cell.status);
  f("reason", cell.reason, Presence::sparse);
  f("dev", cell.dev, Presence::nullable, {.most = 1});
  f("ci95", cell.ci95, Presence::sparse, {.most = 1});
  f("examples", cell.examples, Presence::sparse, {.least = 1});
  f("best_step", cell.best_step);
  f("left_majority_at", cell.left_majority_at, Presence::nullable);
  f("learning_unknown", cell.learning_unknown, Presence::sparse);
  f("seconds", cell.seconds);
};

constexpr auto chosen_point_fields = [](auto& f, auto& chosen) {
  f("attention", chosen.attention);
  f("point", chosen.point);
  f("dev", chosen.dev, Presence::required, {.most = 1});
  f("ci95", chosen.ci95, Presence::required, {.most = 1});
  f("learned", chosen.learned);
  f("learning_unknown", chosen.learning_unknown, Presence::sparse);
  f("seeds", chosen.seeds, Presence::required, {.least = 1});
};

constexpr auto hours_fields = [](auto& f, auto& cost) {
  f("attention", cost.attention);
  f("hours", cost.hours);
};

constexpr auto tune_fields = [](auto& f, auto& file) {
  f.schema(kTuneSchema);
  f.group("request", Presence::required, [&file](auto& request) {
    request("task", file.task);
    request("attentions", file.attentions);
    request("points", file.points);
    request("seeds", file.seeds);
    request("protocol", file.protocol);
    request("sets", file.sets);
    request("data", file.data);
    request("dtype", file.dtype);
    request("device", file.device);
    request("threads", file.threads, Presence::required, {.least = 1});
  });
  f("fingerprint", file.fingerprint);
  f("data_source", file.data_source, Presence::sparse);
  f("synthetic", file.synthetic, Presence::sparse);
  f("recipes", file.recipes);
  f("software", file.software);
  f.list("cells", file.cells, Presence::optional, tuned_cell_fields);
  f.list("chosen", file.chosen, Presence::optional, chosen_point_fields);
  f.group("cost", Presence::required, [&file](auto& cost) {
    cost("hours", file.hours);
    cost.list("attentions", file.cost, Presence::optional, hours_fields);
  });
};

}  // namespace

json make_tune_file(const TuneFile& file) { return write_record(file, tune_fields); }

TuneFile read_tune_file(const std::filesystem::path& path) {
  try {
    return read_record<TuneFile>(read_json(path), "", tune_fields);
  } catch (const std::runtime_error& error) {
    throw Error(
        fmt::format("{} is not the file of a search ({}); remove it, and the same command "
                    "makes it anew from the cells, or choose another --out folder",
                    path.string(), error.what()));
  }
}

}  // namespace lra::tune
