// lra-2026 is lra-strict but for what a search on dev chose, whose record is in results/measured.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "attention_variants/base/files.h"
#include "lra/config/protocol.h"

namespace lra {
namespace {

Config config_of(const char* protocol, const std::string& task, const std::string& attention) {
  return make_config(load_protocol(protocol), task, parse_attention(attention), {}, 0, "float32");
}

double rate(const std::string& task, const std::string& attention) {
  return config_of("lra-2026", task, attention).settings.optimizer.lr;
}

TEST(Lra2026, RatesAreThoseOfTheSearch) {
  const json search = read_json(LRA_SOURCE_DIR "/results/measured/tune-listops/tune.json");
  ASSERT_EQ(search["request"]["protocol"], "lra-strict");
  ASSERT_EQ(search["chosen"].size(), 5u);
  for (const json& chosen : search["chosen"]) {
    const std::string attention = chosen["attention"], point = chosen["point"][0];
    const bool is_said =
        std::ranges::any_of(load_protocol("lra-2026").choices, [&](const auto& line) {
          return line.find(attention) != line.npos && line.find(" on listops: ") != line.npos &&
                 line.find(fmt::format(" {:.2f} %", 100 * chosen["dev"].get<double>())) !=
                     line.npos;
        });
    EXPECT_TRUE(is_said) << attention;
    EXPECT_EQ("optimizer.lr=" + json(rate("listops", attention)).dump(), point) << attention;
  }
  // Of what was not searched: the point with the highest mean of all cells.
  std::map<std::string, double> sums;
  for (const json& cell : search["cells"]) {
    ASSERT_EQ(cell["status"], "ok");
    sums[cell["point"][0]] += cell["dev"].get<double>();
  }
  const auto best = std::ranges::max_element(sums, {}, [](const auto& sum) { return sum.second; });
  for (const AttentionEntry* variant : attention_entries()) {
    const std::string& name = variant->info.name;
    const bool searched = std::ranges::any_of(
        search["chosen"], [&name](const json& chosen) { return chosen["attention"] == name; });
    if (!searched) {
      EXPECT_EQ("optimizer.lr=" + json(rate("listops", name)).dump(), best->first) << name;
    }
  }
}

TEST(Lra2026, IsOtherwiseStrict) {
  const Protocol strict = load_protocol("lra-strict");
  for (const auto& [task, entry] : strict.tasks.items()) {
    for (const AttentionEntry* variant : attention_entries()) {
      const std::string& attention = variant->info.name;
      Config config = config_of("lra-2026", task, attention);
      const Config other = config_of("lra-strict", task, attention);
      if (task == "listops") {
        EXPECT_EQ(config.settings.training.evaluate_every, 250);
        config.settings.training.evaluate_every = other.settings.training.evaluate_every;
        config.settings.optimizer.lr = other.settings.optimizer.lr;
      }
      EXPECT_EQ(differences(write_fields(config.settings), write_fields(other.settings)),
                std::vector<std::string>{})
          << task << " " << attention;
      EXPECT_EQ(config.attention_options, other.attention_options) << task << " " << attention;
    }
  }
}

}  // namespace
}  // namespace lra
