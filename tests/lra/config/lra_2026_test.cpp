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

// The search of a task, with so many attentions.
json search_of(const std::string& task, size_t attentions) {
  const json search =
      read_json(std::string(LRA_SOURCE_DIR "/results/measured/tune-") + task + "/tune.json");
  EXPECT_EQ(search["request"]["task"], task);
  EXPECT_EQ(search["request"]["protocol"], "lra-strict");
  EXPECT_EQ(search["chosen"].size(), attentions);
  return search;
}

// What the protocol says of `attention` has the accuracy by which its rate was chosen.
bool is_said(const std::string& task, const json& chosen) {
  const std::string accuracy = fmt::format(" {:.2f} %", 100 * chosen["dev"].get<double>());
  return std::ranges::any_of(load_protocol("lra-2026").choices, [&](const std::string& line) {
    return line.find(chosen["attention"].get<std::string>()) != line.npos &&
           line.find(" on " + task + ": ") != line.npos && line.find(accuracy) != line.npos;
  });
}

TEST(Lra2026, RatesAreThoseOfTheSearches) {
  for (const auto& [task, attentions] :
       {std::pair<std::string, size_t>{"listops", 5}, {"text", 4}}) {
    SCOPED_TRACE(task);
    const json search = search_of(task, attentions);
    for (const json& chosen : search["chosen"]) {
      const std::string attention = chosen["attention"], point = chosen["point"][0];
      EXPECT_TRUE(is_said(task, chosen)) << attention;
      EXPECT_EQ("optimizer.lr=" + json(rate(task, attention)).dump(), point) << attention;
    }
    // Of what was not searched: the point with the highest mean of all cells.
    std::map<std::string, double> sums;
    for (const json& cell : search["cells"]) {
      ASSERT_EQ(cell["status"], "ok");
      sums[cell["point"][0]] += cell["dev"].get<double>();
    }
    const auto best =
        std::ranges::max_element(sums, {}, [](const auto& sum) { return sum.second; });
    for (const AttentionEntry* variant : attention_entries()) {
      const std::string& name = variant->info.name;
      const bool searched = std::ranges::any_of(
          search["chosen"], [&name](const json& chosen) { return chosen["attention"] == name; });
      if (!searched) {
        EXPECT_EQ("optimizer.lr=" + json(rate(task, name)).dump(), best->first) << name;
      }
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
