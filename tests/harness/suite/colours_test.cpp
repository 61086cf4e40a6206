// lra suite in colour: the data of images are made as the cells read them.
#include "harness/suite/suite_data.h"
#include "lra/data/manifest.h"
#include "tests/harness/suite/tasks_fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

class SuiteColoursTest : public SuiteTasksTest {
 protected:
  // A protocol whose entry of image is `entry`, as a path.
  std::string protocol(const std::string& entry) const {
    const fs::path path = scratch_.path() / "coloured.json";
    write_file(path, R"({"schema": "lra.protocol/1", "name": "coloured", "extends": "lra-strict",
                         "tasks": {"image": )" +
                         entry + "}}");
    return path.string();
  }
  SuiteRequest request(const std::string& protocol_path) const {
    return {.tasks = {"text", "image"},
            .attentions = {{.name = "standard"}, {.name = "linear"}},
            .seeds = {0},
            .protocol = protocol_path,
            .budget = load_budget(budget_.string()),
            .data = {.sources = {{"text", reviews_}, {"image", images_}}},
            .out = out_};
  }

  const std::vector<std::string> rgb_ = {"--tasks",           "image", "--set",
                                         "input.colours=rgb", "--set", "model.encoder=linear"};
  const std::vector<std::string> source_ = {"--source", "image=" + images_.string()};
};

TEST_F(SuiteColoursTest, MakesTheDataThatItsCellsRead) {
  const std::vector<std::string> one = with(rgb_, {"--only", "0"});
  const ProgramResult result = run_program(words(with(one, source_)));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("data: image --set colours=rgb\n"), std::string::npos) << result.err;
  const Manifest manifest = Manifest::read(out_ / "data" / "image" / "manifest.json");
  EXPECT_EQ(manifest.colours(), Colours::rgb);
  EXPECT_EQ(manifest.inputs, 3);
  EXPECT_EQ(manifest.splits.at("train").count, 40);
  const fs::path run = out_ / "runs" / "image" / "standard" / "seed0";
  const json record = read_json(run / kResultFile);
  EXPECT_EQ(record["status"], "ok");
  EXPECT_EQ(record["config"]["input"]["colours"], "rgb");

  // By the folder alone: what was made is found, and the cell runs again on it.
  fs::remove(run / kResultFile);
  const ProgramResult again =
      run_program({"suite", "--out", out_.string(), "--resume", "--only", "0", "--threads", "1"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(read_json(run / kResultFile)["status"], "ok");
}

TEST_F(SuiteColoursTest, AProtocolMayAskForColour) {
  const std::string path =
      protocol(R"({"input": {"colours": "rgb"}, "model": {"encoder": "linear"}})");
  const Suite suite = plan_suite(request(path));
  EXPECT_EQ(coloured_tasks(suite), std::vector<std::string>{"image"});
  const std::vector<TaskData> data = suite_data(suite);
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[0].task, "text");
  EXPECT_EQ(data[0].make->settings.dump(), "{}");
  EXPECT_EQ(data[1].make->settings.dump(), R"({"colours":"rgb"})");

  const Suite grey = plan_suite(request("lra-strict"));
  EXPECT_TRUE(coloured_tasks(grey).empty());
  EXPECT_EQ(suite_data(grey)[1].make->settings.dump(), "{}");
}

TEST_F(SuiteColoursTest, RefusesCellsOfOneTaskThatWantBoth) {
  const std::string path = protocol(
      R"({"attentions": {"linear": {"settings": {"input": {"colours": "rgb"},
                                                 "model": {"encoder": "linear"}}}}})");
  const std::string message =
      "image standard seed 0 has input.colours grey, and image linear seed 0 rgb: the cells of a "
      "task read the same data; give --set input.colours=COLOURS to all, or each kind an --out "
      "folder of its own";
  EXPECT_EQ(error_text([&] { plan_suite(request(path)); }), message);
  std::vector<std::string> both = words(with({"--tasks", "image", "--protocol", path}, source_));
  *std::ranges::find(both, "standard") = "standard,linear";
  expect_refusal(both, 2, message);
  EXPECT_FALSE(fs::exists(out_)) << "nothing half-written";
  // Each by itself is a suite.
  SuiteRequest alone = request(path);
  alone.attentions = {{.name = "linear"}};
  EXPECT_EQ(coloured_tasks(plan_suite(alone)), std::vector<std::string>{"image"});
}

TEST_F(SuiteColoursTest, AnErrorWhereThereAreNoDataNamesTheColours) {
  EXPECT_NE(refused(rgb_).find(
                "or --data DIR after: lra data prepare image --set colours=rgb --source PATH"),
            std::string::npos);
  EXPECT_NE(refused(with(with(rgb_, source_), {"--synthetic"}))
                .find("--synthetic makes a stand-in for retrieval, and the suite runs image"),
            std::string::npos)
      << "there are no stand-ins of images, in grey or in colour";
}

TEST_F(SuiteColoursTest, GivenGreyDataAreRefusedWhereColourIsAskedFor) {
  const fs::path data = scratch_.path() / "data";
  task("image").prepare({.out = data, .source = images_, .train = 40, .dev = 8, .test = 16});
  const ProgramResult result = run_program(words(with(rgb_, {"--data", data.string()})));
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find("are grey and input.colours is rgb: train with --set "
                            "input.colours=grey, or give data that were prepared with --set "
                            "colours=rgb"),
            std::string::npos)
      << result.err;
  EXPECT_FALSE(fs::exists(out_ / "runs")) << "no cell has begun";
}

TEST_F(SuiteColoursTest, APlanSaysWhatIsReadInColour) {
  const std::vector<std::string> records = {"--records", scratch_.path().string()};
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words(with(with(records, source_), more));
    all.insert(all.begin() + 1, "plan");
    const ProgramResult result = run_program(all);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  EXPECT_NE(plan(rgb_).find("image: data in colour (input.colours rgb)"), std::string::npos);
  EXPECT_EQ(json::parse(plan(with(rgb_, {"--json"})))["coloured"].dump(), R"(["image"])");
  const std::vector<std::string> grey = {"--tasks", "image"};
  EXPECT_EQ(plan(grey).find("colour"), std::string::npos);
  EXPECT_EQ(json::parse(plan(with(grey, {"--json"})))["coloured"].dump(), "[]");
  EXPECT_FALSE(fs::exists(out_)) << "a plan writes nothing";
}

}  // namespace
}  // namespace lra::suite
