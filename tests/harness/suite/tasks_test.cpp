// lra suite over all tasks: where their data come from, and what it says where there are none.
#include "harness/suite/data.h"
#include "tests/harness/suite/tasks_fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

TEST_F(SuiteTasksTest, PreparesWhatItCanAndTakesSourcesForTheRest) {
  const std::vector<std::string> all = {"--tasks",    "text,image,retrieval,pathfinder,pathx",
                                        "--source",   "text=" + reviews_.string(),
                                        "--source",   "image=" + images_.string(),
                                        "--synthetic"};
  const ProgramResult result = run_program(words(all));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* name : {"text", "image", "retrieval", "pathfinder", "pathx"}) {
    const json record = read_json(out_ / "runs" / name / "standard" / "seed0" / kResultFile);
    EXPECT_EQ(record["status"], "ok") << name;
    EXPECT_EQ(record["test"]["count"], 16) << name;
    EXPECT_EQ(record["data"]["synthetic"], std::string(name) == "retrieval") << name;
  }
  // One table of the budget's tasks, which says where data are stand-ins.
  const size_t first = result.out.find("Accuracy: ");
  ASSERT_NE(first, std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("Accuracy: ", first + 1), std::string::npos) << result.out;
  for (const char* said :
       {"float32, synthetic data of retrieval, image of", "  retrieval* %  ", "  average of 5*\n",
        "* retrieval: synthetic: stand-in data, comparable with no published"})
    EXPECT_NE(result.out.find(said), std::string::npos) << said << "\n" << result.out;

  // Again without sources: the data that it made are found.
  const ProgramResult again = run_program(words({all[0], all[1]}));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, result.out);
  // With the sources, of which another version of the program made what its cells are trained on.
  const fs::path manifest = out_ / "data" / "text" / "manifest.json";
  json of_before = read_json(manifest);
  of_before["generator"] = "imdb/0";
  write_json(manifest, of_before);
  const ProgramResult other = run_program(words(all));
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_NE(other.err.find("data: text, as made before"), std::string::npos) << other.err;
  EXPECT_EQ(other.out, result.out);
  // And with the same sources once they are gone, Text's as the one of Retrieval's stand-in.
  fs::remove(reviews_);
  fs::remove_all(images_);
  const ProgramResult gone = run_program(words(all));
  EXPECT_EQ(gone.status, 0) << gone.err;
  EXPECT_EQ(gone.out, result.out);
}

TEST_F(SuiteTasksTest, DataThatCellsCannotReadAreRefusedBeforeTheFirst) {
  const ProgramResult result =
      run_program(words({"--set", "evaluation.batch=64", "--set", "evaluation.drop_last=true"}));
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find("the dev split has 8 samples, fewer than 64, an evaluation batch"),
            std::string::npos)
      << result.err;
  EXPECT_FALSE(fs::exists(out_ / "runs"));
}

TEST_F(SuiteTasksTest, UnaskedItRunsTheBudgetsTasks) {
  const ProgramResult result = run_program(words({}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(fs::exists(out_ / "runs" / "pathfinder"));
  EXPECT_FALSE(fs::exists(out_ / "runs" / "text"));
}

TEST_F(SuiteTasksTest, UnaskedItLeavesOutWhatHasNoDataWhereTheBudgetSaysSo) {
  json budget = read_json(budget_);
  budget["run"] = "pathfinder,text,image,retrieval";
  write_json(budget_, budget);
  EXPECT_NE(refused({}).find("image needs --source"), std::string::npos);

  budget["skip_missing"] = true;
  write_json(budget_, budget);
  const std::vector<std::string> with_text = {"--source", "text=" + reviews_.string()};
  const ProgramResult result = run_program(words(with_text));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* line : {"left out, there are no data: image needs --source image=PATH",
                           "left out, there are no data: retrieval needs --source retrieval=PATH"})
    EXPECT_NE(result.err.find(line), std::string::npos) << result.err;
  for (const char* name : {"pathfinder", "text"}) EXPECT_TRUE(fs::exists(out_ / "runs" / name));
  for (const char* name : {"image", "retrieval"}) EXPECT_FALSE(fs::exists(out_ / "runs" / name));

  // Asked for, it has to have data.
  out_ = scratch_.path() / "asked";
  EXPECT_NE(refused({"--tasks", "text,image", with_text[0], with_text[1]})
                .find("there are no data: image needs --source"),
            std::string::npos);

  // Prepared data that hold none of the tasks leave nothing to run.
  const std::string nothing = (scratch_.path() / "nothing").string();
  out_ = scratch_.path() / "s2";
  const ProgramResult none = run_program(words({"--data", nothing}));
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("there are no data of any task of budget tiny"), std::string::npos)
      << none.err;
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(SuiteTasksTest, GivenDataAreUsedAndSourcesFillTheRest) {
  const fs::path data = scratch_.path() / "data";
  task("pathfinder").prepare({.out = data, .seed = 3, .train = 24, .dev = 8, .test = 10});
  const ProgramResult result =
      run_program(words({"--tasks", "pathfinder,text", "--data", data.string(), "--source",
                         "text=" + reviews_.string()}));
  ASSERT_EQ(result.status, 0) << result.err;
  const auto count = [&](const char* name) {
    return read_json(out_ / "runs" / name / "standard" / "seed0" / kResultFile)["test"]["count"];
  };
  EXPECT_EQ(count("pathfinder"), 10);
  EXPECT_EQ(count("text"), 16);
  EXPECT_FALSE(fs::exists(out_ / "data" / "pathfinder"));
  EXPECT_FALSE(fs::exists(data / "text")) << "the user's folder stays as it is";
}

TEST_F(SuiteTasksTest, WithoutDataItNamesEveryTaskAndWhatToDo) {
  const std::string text = refused({"--tasks", "pathfinder,text,retrieval,image"});
  for (const char* part :
       {"there are no data: text needs --source text=PATH (aclImdb_v1.tar.gz or its folder "
        "aclImdb)",
        "lra data prepare text --source PATH --out DIR", "retrieval needs --source retrieval=PATH",
        "--synthetic --source text=PATH", "image needs --source image=PATH"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("pathfinder"), std::string::npos) << "it can be generated: " << text;
}

TEST_F(SuiteTasksTest, RefusesSourcesThatAreOfNoUse) {
  const auto expect = [&](const std::vector<std::string>& words, const std::string& part) {
    const std::string text = refused(words);
    EXPECT_TRUE(contains(text, part)) << text;
  };
  expect({"--tasks", "text", "--source", "reviews.tar"},
         "--source should be TASK=FOLDER_OR_ARCHIVE, as text=aclImdb_v1.tar.gz, not 'reviews.tar'");
  expect({"--tasks", "text", "--source", "txt=a"}, "did you mean 'text'?");
  expect({"--tasks", "text", "--source", "text=/no/such"},
         "--source text=/no/such: there is no such file or folder");
  expect({"--tasks", "pathfinder", "--source", "text=" + reviews_.string()},
         "--source text: the suite runs pathfinder; name it in --tasks or leave the source out");
  expect({"--tasks", "text", "--source", "text=" + reviews_.string(), "--source",
          "text=" + reviews_.string()},
         "--source names text twice");
  expect({"--tasks", "pathfinder", "--synthetic"},
         "--synthetic makes a stand-in for retrieval, and the suite runs pathfinder");
  expect({"--tasks", "pathfinder", "--data", scratch_.path().string()},
         "run: lra data prepare pathfinder --out " + scratch_.path().string());
}

// A stand-in is never taken for the real thing: a source of the task's own comes first, and it is
// synthetic only where that is asked for.
TEST_F(SuiteTasksTest, APlanSaysWhatIsMade) {
  const Budget budget = load_budget(budget_.string());
  DataSources from{.folder = out_ / "data",
                   .sources = {{"text", reviews_}, {"retrieval", images_}},
                   .synthetic = false};
  auto plan = locate_data({"text", "retrieval", "pathx"}, budget, from);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].make->source, reviews_);
  EXPECT_EQ(plan[0].make->train, 40);
  EXPECT_EQ(plan[1].make->source, images_);
  EXPECT_FALSE(plan[1].make->synthetic);
  EXPECT_TRUE(plan[2].make->source.empty());
  EXPECT_EQ(plan[2].directory, out_ / "data");

  from.sources.erase("retrieval");
  from.synthetic = true;
  plan = locate_data({"text", "retrieval"}, budget, from);
  EXPECT_FALSE(plan[0].make->synthetic);
  EXPECT_TRUE(plan[1].make->synthetic);
  EXPECT_EQ(plan[1].make->source, reviews_);
}

TEST(SuiteBudgets, NameWhatTheyDoForEachTask) {
  EXPECT_EQ(load_budget("smoke").default_tasks(), std::vector<std::string>{"listops"});
  const std::vector<std::string> five = {"listops", "text", "retrieval", "image", "pathfinder"};
  const std::vector<std::string> three = {"listops", "text", "image"};
  EXPECT_EQ(load_budget("quick").default_tasks(), three);
  EXPECT_TRUE(load_budget("quick").skip_missing);
  EXPECT_EQ(load_budget("paper").default_tasks(), five);
  EXPECT_FALSE(load_budget("paper").skip_missing);
  for (const char* name : {"quick", "paper"}) {
    for (const Task* known : tasks()) {
      if (known->position_labels) continue;  // of no budget
      EXPECT_NO_THROW(load_budget(name).task(known->name)) << name;
    }
  }
}

// Every override of a budget's is one of a protocol's.
TEST(SuiteBudgets, GoOverEveryProtocol) {
  for (const std::string& protocol : protocol_names()) {
    for (const char* name : {"smoke", "quick", "paper"}) {
      const Budget budget = load_budget(name);
      for (const auto& [task_name, entry] : budget.tasks.items()) {
        if (!load_protocol(protocol).tasks.contains(task_name)) continue;
        std::vector<std::string> sets;
        const TaskBudget of_task = budget.task(task_name);
        for (const auto& [key, value] : of_task.set.items())
          sets.push_back(key + "=" + value.dump());
        EXPECT_NO_THROW(make_config(load_protocol(protocol), task_name,
                                    {.name = attention_entries().front()->info.name}, sets, 0,
                                    "float32"))
            << protocol << " " << name << " " << task_name;
      }
    }
  }
}

}  // namespace
}  // namespace lra::suite
