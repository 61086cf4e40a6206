// The words of --grid, and the points that they make.
#include "harness/tune/grid.h"

#include <gtest/gtest.h>

#include "tests/support/scratch.h"

namespace lra::tune {
namespace {

std::string refused(const std::vector<std::string>& words,
                    const std::vector<std::string>& sets = {}) {
  return error_text([&] { grid_points(words, sets); });
}

TEST(TuneGrid, IsEveryValueAgainstAllOthersInTheirOrder) {
  const std::vector<Point> points =
      grid_points({"optimizer.lr=3e-3,1e-4", "schedule.kind=cosine,constant"}, {});
  EXPECT_EQ(points, (std::vector<Point>{{"optimizer.lr=0.003", "schedule.kind=cosine"},
                                        {"optimizer.lr=0.003", "schedule.kind=constant"},
                                        {"optimizer.lr=0.0001", "schedule.kind=cosine"},
                                        {"optimizer.lr=0.0001", "schedule.kind=constant"}}));
  EXPECT_EQ(point_text(points[1]), "optimizer.lr=0.003, schedule.kind=constant");
  EXPECT_EQ(grid_points({"training.batch=8"}, {"training.steps=5"}),
            (std::vector<Point>{{"training.batch=8"}}));
}

TEST(TuneGrid, APointIsTheSameInAnyOrder) {
  EXPECT_TRUE(same_point({"a.b=1", "c.d=x"}, {"c.d=x", "a.b=1.0"}));
  EXPECT_FALSE(same_point({"a.b=1", "c.d=x"}, {"a.b=1"}));
  EXPECT_FALSE(same_point({"a.b=1"}, {"a.b=2"}));
  EXPECT_EQ(refused({"optimizer.weight_decay=0,0.0"}),
            "--grid optimizer.weight_decay names the value 0.0 twice");
}

TEST(TuneGrid, AListIsOneValue) {
  EXPECT_EQ(grid_points({R"(optimizer.groups=[],[{"match":["*.a","*.b"],"lr":1}])"}, {}),
            (std::vector<Point>{{"optimizer.groups=[]"},
                                {R"(optimizer.groups=[{"match":["*.a","*.b"],"lr":1}])"}}));
}

TEST(TuneGrid, RefusesWhatIsMalformedOrNoSetting) {
  EXPECT_EQ(refused({"optimizer.lr"}),
            "--grid should be key=value,value, as optimizer.lr=1e-4,3e-4, not 'optimizer.lr'");
  EXPECT_EQ(refused({}),
            "--grid names no setting; it should be key=value,value, as optimizer.lr=1e-4,3e-4");
  EXPECT_EQ(refused({"optimizer.lr="}),
            "--grid optimizer.lr names no value; it should be key=value,value, as "
            "optimizer.lr=1e-4,3e-4");
  EXPECT_TRUE(refused({"optimizer.lr=1e-4,,3e-4"})
                  .starts_with("--grid optimizer.lr: a value is missing between commas"));
  EXPECT_TRUE(refused({"optimizer.lrr=1e-4"})
                  .starts_with("unknown key 'lrr' in --grid optimizer; did you mean 'lr'?"));
  EXPECT_EQ(refused({"optimizer.lr=1e-4,0"}), "--grid optimizer: lr should be more than 0, not 0");
  EXPECT_EQ(refused({"training.steps=ten"}),
            "--grid training: steps should be an integer, at least 1, not \"ten\"");
}

TEST(TuneGrid, TheTestSplitStaysUnread) {
  const std::string why = "a search chooses on dev alone";
  EXPECT_NE(refused({"evaluation.test=true,false"}).find(why), std::string::npos);
  EXPECT_NE(refused({R"(evaluation={"test":false},{"test":true})"}).find(why), std::string::npos);
  EXPECT_NE(error_text([] {
              grid_points({"optimizer.lr=1"}, {R"(evaluation={"test":true})"});
            }).find(why),
            std::string::npos);
}

TEST(TuneGrid, ObjectivesDoNotCompare) {
  const std::string why = "do not compare; make a search of each objective";
  EXPECT_NE(refused({"training.objective=classify,masked"}).find(why), std::string::npos);
  EXPECT_NE(refused({R"(training={"objective":"masked"})"}).find(why), std::string::npos);
}

TEST(TuneGrid, PointsAreScoredAlike) {
  const std::string why = "the best of more evaluations, or of other samples, is no better recipe";
  EXPECT_NE(refused({"training.evaluate_every=1,8"}).find(why), std::string::npos);
  EXPECT_NE(refused({R"(training={"evaluate_every":8})"}).find(why), std::string::npos);
  EXPECT_NE(refused({"evaluation.select_after=0,1"}).find(why), std::string::npos);
  EXPECT_NE(refused({"evaluation.drop_last=true,false"}).find(why), std::string::npos);
  EXPECT_NE(refused({"evaluation.batch=7,8"}).find(why), std::string::npos);
  EXPECT_EQ(refused({"training.steps=5,8"}, {"training.evaluate_every=1"}), "(no error)");
}

TEST(TuneGrid, RefusesASettingThatIsGivenTwice) {
  EXPECT_EQ(refused({"optimizer.lr=1e-4", "optimizer.lr=3e-4"}),
            "--grid gives optimizer.lr twice; write all of its values in one");
  EXPECT_EQ(refused({"optimizer.lr=1e-4,0.0001"}),
            "--grid optimizer.lr names the value 0.0001 twice");
  EXPECT_EQ(refused({"optimizer.lr=1e-4"}, {"training.steps=5", "optimizer.lr=1e-3"}),
            "--set optimizer.lr=1e-3 and --grid optimizer.lr=1e-4 give the same setting; leave one "
            "of them out");
  EXPECT_TRUE(refused({"optimizer.lr=1e-4"}, {R"(optimizer={"lr":1e-3})"})
                  .ends_with("give the same setting; leave one of them out"));
  EXPECT_EQ(refused({"optimizer.lr=1e-4"}, {"optimizer.lrr=1"}), "(no error)")
      << "another name, which the protocol refuses";
  for (const auto& [words, sets] :
       {std::pair<std::vector<std::string>, std::vector<std::string>>{{"evaluation.test=true"}, {}},
        {{"optimizer.lr=1e-4"}, {"evaluation.test=true"}}})
    EXPECT_NE(refused(words, sets).find("evaluation.test: a search chooses on dev alone"),
              std::string::npos);
}

}  // namespace
}  // namespace lra::tune
