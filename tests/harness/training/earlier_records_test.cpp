// Records that are older than a setting or an option are of the runs that the same command makes:
// they resume, and share tables. A key that lra/config/earlier lacks fails here.
#include <gtest/gtest.h>

#include "attention_variants/base/fields.h"
#include "attention_variants/base/files.h"
#include "harness/training/run_folder.h"
#include "results/analysis/recipes.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// What lra train computed at commit 7cf7a44, for every variant.
TEST(EarlierIdentities, OfEveryVariantAreThoseThatTheProgramOfBeforeComputed) {
  const json fixture = read_json(LRA_SOURCE_DIR "/tests/fixtures/earlier-identities.json");
  const auto sets = fixture.at("sets").get<std::vector<std::string>>();
  ASSERT_EQ(fixture.at("runs").size(), 15u);
  for (const json& run : fixture.at("runs")) {
    const std::string name = run.at("attention");
    const Config config =
        make_config(load_protocol("lra-strict"), "listops", {.name = name}, sets, 0, "float32");
    json identity = config_identity(config.to_json());
    identity["fingerprint"] = run.at("identity").at("fingerprint");
    EXPECT_EQ(differences(run.at("identity"), identity), std::vector<std::string>{}) << name;
    EXPECT_EQ(sha256(identity.dump()), run.at("sha256")) << name;
  }
}

// The words of --set that a saved configuration is of.
std::vector<std::string> sets_of(const json& saved) {
  std::vector<std::string> sets;
  for (const std::string key : saved.at("overridden")) {
    const json& value = saved.at(dotted_pointer(key));
    sets.push_back(key + "=" + text_from_value(value));
  }
  return sets;
}

// Runs of results/measured whose protocol says today what it said then.
std::vector<fs::path> committed_runs() {
  std::vector<fs::path> runs;
  for (const auto& entry : fs::recursive_directory_iterator(LRA_SOURCE_DIR "/results/measured")) {
    if (entry.path().filename() != kConfigFile) continue;
    if (read_json(entry.path()).at("protocol") == "lra-strict")
      runs.push_back(entry.path().parent_path());
  }
  return runs;
}

TEST(EarlierRecords, AreOfTheRunsAndRecipesThatTheirCommandsMakeToday) {
  size_t compared = 0;
  for (const fs::path& run : committed_runs()) {
    const json saved = read_json(run / kConfigFile);
    const Config then = Config::from_json(saved, run.string());
    const Config now = make_config(load_protocol(then.protocol), then.task, then.attention,
                                   sets_of(saved), then.seed, to_string(then.dtype));
    json identity = config_identity(now.to_json());
    json expected = config_identity(saved.at("identity"));
    expected.erase("fingerprint");
    EXPECT_EQ(differences(expected, identity), std::vector<std::string>{}) << run;
    EXPECT_EQ(differences(identity, config_identity(then.to_json())), std::vector<std::string>{})
        << run;

    const Result old = read_result(run / kResultFile);
    Result today = old;
    today.seed = old.seed + 1;
    today.config = now.to_json();
    // Which once named what the protocol says itself, too.
    today.config["overridden"] = old.config["overridden"];
    const std::vector<Result> both = {old, today};
    const std::vector<RecipeGroup> groups = group_by_recipe(both);
    EXPECT_EQ(groups.size(), 1u) << run << ": " << json(groups.back().settings) << ", "
                                 << json(groups.back().overridden);
    ++compared;
  }
  EXPECT_GE(compared, 25u);
}

}  // namespace
}  // namespace lra
