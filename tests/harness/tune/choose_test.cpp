// The choice among a grid's points, its record, and the protocol that comes of it.
#include "harness/tune/choose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>

#include "harness/tune/tuned_protocol.h"
#include "lra/config/choices.h"
#include "lra/config/protocol.h"
#include "tests/support/scratch.h"

namespace lra::tune {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kExamples = 400, kNever = -1;

TunedCell cell(const std::string& attention, const std::string& lr, uint64_t seed, double dev,
               int64_t left) {
  return {.attention = attention,
          .point = {"optimizer.lr=" + lr},
          .seed = seed,
          .run = attention + lr + std::to_string(seed),
          .status = Status::ok,
          .dev = dev,
          .ci95 = stats::Interval{dev - 0.01, dev + 0.01},
          .examples = kExamples,
          .best_step = 8,
          .left_majority_at = left == kNever ? std::nullopt : std::optional(left),
          .seconds = 1800};
}

// Two seeds of one attention at three points.
TuneFile example(const std::vector<TunedCell>& cells) {
  TuneFile file{.task = "listops",
                .attentions = {"nystrom"},
                .points = {{"optimizer.lr=0.1"}, {"optimizer.lr=0.2"}, {"optimizer.lr=0.3"}},
                .seeds = {0, 1},
                .protocol = "lra-strict",
                .sets = {"training.steps=9"},
                .data = "data",
                .dtype = "float32",
                .device = "cpu",
                .threads = 1,
                .fingerprint = "f",
                .recipes = {{"nystrom", {{"seed", 0}}}},
                .software = {{"lra", "0"}},
                .cells = cells,
                .hours = 3,
                .cost = {{"nystrom", 3}}};
  file.chosen = choose(scores_of(file));
  return file;
}

std::vector<Point> chosen_points(const std::vector<TunedCell>& cells) {
  std::vector<Point> points;
  for (const ChosenPoint& one : example(cells).chosen) points.push_back(one.point);
  return points;
}

std::vector<TunedCell> cells_of(std::vector<std::array<double, 2>> dev,
                                std::vector<std::array<int64_t, 2>> left) {
  std::vector<TunedCell> cells;
  for (size_t point = 0; point < dev.size(); ++point) {
    const std::string lr = "0." + std::to_string(point + 1);
    for (size_t seed = 0; seed < 2; ++seed)
      cells.push_back(cell("nystrom", lr, seed, dev[point][seed], left[point][seed]));
  }
  return cells;
}

TEST(TuneChoice, IsTheHighestMeanOverSeeds) {
  const auto cells =
      cells_of({{0.5, 0.1}, {0.3, 0.35}, {0.3, 0.3}}, {{8, kNever}, {kNever, kNever}, {4, 4}});
  EXPECT_EQ(chosen_points(cells), (std::vector<Point>{{"optimizer.lr=0.2"}}))
      << "not the best seed, and not what most seeds learned";
  const ChosenPoint chosen = example(cells).chosen.front();
  EXPECT_DOUBLE_EQ(chosen.dev, 0.325);
  EXPECT_LT(chosen.ci95.low, 0.3);
  EXPECT_GT(chosen.ci95.high, 0.35) << "over two seeds";
  EXPECT_EQ(chosen.learned, 0);
  EXPECT_EQ(chosen.seeds, 2);
}

TEST(TuneChoice, AmongEqualsIsWhatMoreSeedsLearnedThenTheFirst) {
  // The same counts in another order.
  const std::vector<std::array<double, 2>> equal = {{0.3, 0.1}, {0.1, 0.3}, {0.3, 0.1}};
  EXPECT_EQ(chosen_points(cells_of(equal, {{8, kNever}, {4, 8}, {4, 4}})),
            (std::vector<Point>{{"optimizer.lr=0.2"}}));
  EXPECT_EQ(chosen_points(cells_of(equal, {{8, kNever}, {kNever, 8}, {4, kNever}})),
            (std::vector<Point>{{"optimizer.lr=0.1"}}));
}

TEST(TuneChoice, IsOfPointsWithAllOfTheirSeeds) {
  auto cells = cells_of({{0.5, 0.5}, {0.3, 0.3}, {0.4, 0.4}}, {{8, 8}, {8, 8}, {8, 8}});
  cells[1].status = Status::diverged;
  EXPECT_EQ(chosen_points(cells), (std::vector<Point>{{"optimizer.lr=0.3"}}));
  for (TunedCell& one : cells) {
    if (one.seed == 1) one.status = Status::pending;
  }
  EXPECT_EQ(chosen_points(cells), std::vector<Point>{});
  const Score score = scores_of(example(cells)).front();
  EXPECT_FALSE(score.is_whole());
  EXPECT_EQ(score.states(), "1 pending");
  EXPECT_EQ(score.learned(), 1);
}

TEST(TuneChoice, StandsInTheTable) {
  auto cells =
      cells_of({{0.5, 0.1}, {0.3, 0.35}, {0.3, 0.3}}, {{8, kNever}, {kNever, kNever}, {4, 12}});
  cells[5].status = Status::diverged;
  const Table table = score_table(example(cells));
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0][2].substr(0, 6), "30.00 ");
  EXPECT_EQ(table.rows[0][3], "1/2");
  EXPECT_EQ(table.rows[0][4], "8, never");
  EXPECT_EQ(table.rows[0][5], "");
  EXPECT_EQ(table.rows[1][1], "optimizer.lr=0.2");
  EXPECT_EQ(table.rows[1][5], "*");
  EXPECT_EQ(table.rows[2][2], "1 diverged");
  EXPECT_EQ(table.rows[2][4], "4, –");
  EXPECT_EQ(table.notes.back(), "hours of training, evaluations included: nystrom 3, in all 3");
}

// As of a run whose log is lost: that it never learned is not said.
TEST(TuneChoice, DoesNotTakeUnknownForNever) {
  auto cells = cells_of({{0.5, 0.5}, {0.3, 0.3}, {0.3, 0.3}},
                        {{kNever, kNever}, {kNever, kNever}, {kNever, kNever}});
  const auto notes = [&] {
    return fmt::format("{}", fmt::join(score_table(example(cells)).notes, "\n"));
  };
  EXPECT_NE(notes().find("no seed of what was chosen"), std::string::npos);
  cells[0].learning_unknown = true;
  EXPECT_EQ(notes().find("no seed of what was chosen"), std::string::npos);
  EXPECT_EQ(score_table(example(cells)).rows[0][3], "–");
  EXPECT_EQ(score_table(example(cells)).rows[0][4], "–, never");
  EXPECT_TRUE(example(cells).chosen.front().learning_unknown);
}

TEST(TuneRecord, ComesBackAsItWasWritten) {
  const Scratch scratch;
  const fs::path path = scratch.path() / kTuneFile;
  auto cells =
      cells_of({{0.5, 0.1}, {0.3, 0.35}, {0.3, 0.3}}, {{8, kNever}, {kNever, kNever}, {4, 12}});
  cells[5] = {.attention = "nystrom", .point = {"optimizer.lr=0.3"}, .seed = 1, .run = "r"};
  const json written = make_tune_file(example(cells));
  EXPECT_EQ(written["schema"], "lra.tune/1");
  EXPECT_EQ(written["cells"][5]["status"], "pending");
  EXPECT_EQ(written["cells"][5]["dev"], nullptr);
  EXPECT_EQ(written["chosen"][0]["point"], (json{"optimizer.lr=0.2"}));
  EXPECT_EQ(written["cost"]["attentions"][0]["hours"], 3);
  write_json(path, written);
  EXPECT_EQ(make_tune_file(read_tune_file(path)), written);
  json broken = written;
  broken["cells"][0]["dev"] = 1.5;
  write_json(path, broken);
  const std::string refusal = error_text([&] { read_tune_file(path); });
  EXPECT_TRUE(refusal.starts_with(path.string() + " is not the file of a search (")) << refusal;
  EXPECT_NE(refusal.find("'cells.dev'"), std::string::npos) << refusal;
}

TEST(TuneProtocol, HasWhatWasChosenAndSaysWhy) {
  const Scratch scratch;
  const auto cells =
      cells_of({{0.5, 0.1}, {0.3, 0.35}, {0.3, 0.3}}, {{8, kNever}, {kNever, kNever}, {4, 4}});
  const fs::path path = write_protocol(example(cells), scratch.path()).path;
  EXPECT_EQ(path.filename(), "protocol.json");
  const Protocol tuned = load_protocol(path.string()), before = load_protocol("lra-strict");
  EXPECT_TRUE(tuned.name.starts_with("lra-strict-tuned-")) << tuned.name;
  // Another choice is another protocol, so that no table joins their runs.
  auto others = example(cells);
  others.chosen.front().point = others.points.back();
  std::filesystem::create_directories(scratch.path() / "others");
  EXPECT_NE(load_protocol(write_protocol(others, scratch.path() / "others").path.string()).name,
            tuned.name);
  const auto settings = [](const Protocol& of, const char* task, const char* attention) {
    return write_fields(task_settings(of, task, attention));
  };
  json expected = settings(before, "listops", "nystrom");
  expected["optimizer"]["lr"] = 0.2;
  EXPECT_EQ(settings(tuned, "listops", "nystrom"), expected);
  EXPECT_EQ(settings(tuned, "listops", "standard"), settings(before, "listops", "standard"));
  EXPECT_EQ(settings(tuned, "text", "nystrom"), settings(before, "text", "nystrom"));
  ASSERT_EQ(tuned.choices.size(), before.choices.size() + 1);
  EXPECT_EQ(tuned.choices.back(),
            "nystrom on listops: optimizer.lr 0.2 by lra tune: mean dev accuracy 32.50 % over "
            "seeds 0, 1, the highest of 3 points, under training.steps=9; no seed left the most "
            "frequent label, so that the search says nothing of it");
  EXPECT_TRUE(std::ranges::any_of(score_table(example(cells)).notes, [](const std::string& note) {
    return note.starts_with("WARNING: no seed of what was chosen for nystrom left the most ");
  }));
}

TEST(TuneProtocol, ForgetsWhatAnEarlierSearchChose) {
  const Scratch scratch;
  const auto cells =
      cells_of({{0.5, 0.1}, {0.3, 0.35}, {0.3, 0.3}}, {{8, kNever}, {kNever, kNever}, {4, 4}});
  TuneFile second = example(cells);
  second.protocol = write_protocol(example(cells), scratch.path()).path.string();
  second.chosen.front().point = second.points.back();
  fs::create_directories(scratch.path() / "second");
  const Protocol tuned =
      load_protocol(write_protocol(second, scratch.path() / "second").path.string());
  EXPECT_EQ(std::ranges::count_if(tuned.choices,
                                  [](const std::string& line) {
                                    return line.starts_with("nystrom on listops: optimizer.lr");
                                  }),
            1)
      << tuned.choices.back();
}

// The lines of the protocol that `chosen` leaves after one whose choices are `before`.
std::vector<std::string> tuned_lines(const std::string& before, const std::string& attention,
                                     const Point& chosen) {
  const Scratch scratch;
  Protocol held = load_protocol("lra-strict");
  held.choices = {before};
  const fs::path path = scratch.path() / "held.json";
  write_json(path, protocol_json(held));
  TuneFile file = example(cells_of({{0.5, 0.1}, {0.3, 0.3}, {0.2, 0.2}}, {{4, 4}, {4, 4}, {4, 4}}));
  file.protocol = path.string();
  file.chosen.front().attention = attention;
  file.chosen.front().point = chosen;
  return load_protocol(write_protocol(file, scratch.path()).path.string()).choices;
}

TEST(TuneProtocol, MarksWhatAnotherSearchChoseInPart) {
  const std::string before =
      "nystrom on listops: optimizer.lr 0.001, schedule.warmup 3 by lra tune: mean dev";
  auto lines = tuned_lines(before, "nystrom", {"optimizer.lr=0.3"});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], before + "; chosen anew since: optimizer.lr");
  EXPECT_EQ(tuned_lines(lines[0], "nystrom", {"optimizer.lr=0.2"})[0], lines[0]) << "once";
  EXPECT_EQ(tuned_lines(lines[0], "nystrom", {"schedule.warmup=4"}).size(), 1u)
      << "nothing of it holds";
  EXPECT_EQ(tuned_lines(before, "linear", {"optimizer.lr=0.3"})[0], before);
}

// One line may say it of several attentions, or of several tasks.
TEST(TuneProtocol, LeavesALineToTheOthersThatItIsOf) {
  const std::string said = "optimizer.lr 0.0003; in the search all rates end alike";
  auto lines = tuned_lines("nystrom, linear on listops: " + said, "nystrom", {"optimizer.lr=0.3"});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "linear on listops: " + said);
  lines = tuned_lines("nystrom on text, listops: " + said, "nystrom", {"optimizer.lr=0.3"});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "nystrom on text: " + said);
  const std::string other = "nystrom, linear on listops: mean pooling; as published";
  EXPECT_EQ(tuned_lines(other, "nystrom", {"optimizer.lr=0.3"})[0], other);
}

// A suite goes on with the protocol's file, and its records name the protocol.
TEST(TuneProtocol, IsNamedByItsValuesAndKeepsTheFileOfOthers) {
  const Scratch scratch;
  TuneFile file = example(cells_of({{0.5, 0.1}, {0.3, 0.3}, {0.2, 0.2}}, {{4, 4}, {4, 4}, {4, 4}}));
  const TunedProtocol once = write_protocol(file, scratch.path());
  const Protocol before = load_protocol(once.path.string());
  EXPECT_TRUE(once.earlier.empty());
  file.chosen.front().dev += 0.01;  // of more seeds
  const TunedProtocol more = write_protocol(file, scratch.path());
  EXPECT_EQ(load_protocol(more.path.string()).name, before.name);
  EXPECT_TRUE(more.earlier.empty());
  file.chosen.front().point = {"optimizer.lr=0.7"};
  const TunedProtocol another = write_protocol(file, scratch.path());
  EXPECT_NE(load_protocol(another.path.string()).name, before.name);
  ASSERT_TRUE(fs::exists(another.earlier));
  EXPECT_EQ(load_protocol(another.earlier.string()).name, before.name);
}

TEST(TuneProtocol, ForgetsWhatWasChosenForAnAttentionFromAFile) {
  const std::string mine = "python:my.py:Softplus",
                    before = "listops: optimizer.lr 0.001 of " + mine + " by lra tune: mean dev";
  EXPECT_EQ(tuned_lines(before, mine, {"optimizer.lr=0.2"}).size(), 1u);
  EXPECT_EQ(tuned_lines(before, mine + "[beta=2]", {"optimizer.lr=0.2"}).size(), 1u)
      << "an entry is of all options";
  EXPECT_EQ(tuned_lines(before, "python:my.py:Other", {"optimizer.lr=0.2"}).size(), 2u);
}

TEST(TuneProtocol, SaysHowManyPointsWereScored) {
  const Scratch scratch;
  TuneFile file = example(cells_of({{0.5, 0.1}, {0.3, 0.3}, {0.2, 0.2}}, {{4, 4}, {4, 4}, {4, 4}}));
  file.cells.back().status = Status::diverged;
  file.points[0].push_back("training.steps=3");
  for (TunedCell& cell : file.cells) {
    if (cell.point.front() == file.points[0].front()) cell.point = file.points[0];
  }
  file.chosen = choose(scores_of(file));
  const std::string line =
      load_protocol(write_protocol(file, scratch.path()).path.string()).choices.back();
  EXPECT_NE(line.find(" of 3 points (1 of them diverged); points differ in training.steps: "),
            line.npos)
      << line;
}

TEST(TuneProtocol, SaysWhereSeveralPointsAreEqual) {
  const Scratch scratch;
  const TuneFile file =
      example(cells_of({{0.3, 0.2}, {0.1, 0.1}, {0.2, 0.3}}, {{4, 4}, {4, 4}, {4, 4}}));
  EXPECT_EQ(equal_points(file, file.chosen.front()), 2);
  const std::string line =
      load_protocol(write_protocol(file, scratch.path()).path.string()).choices.back();
  EXPECT_NE(line.find(", the first of 2 that are equal and the highest of 3 points, "), line.npos)
      << line;
}

TEST(TuneProtocol, HasAnEntryForAnAttentionFromAFile) {
  const Scratch scratch;
  TuneFile file = example(cells_of({{0.5, 0.1}, {0.3, 0.3}, {0.2, 0.2}}, {{4, 4}, {4, 4}, {4, 4}}));
  file.chosen.front().attention = "python:my.py:Softplus[beta=2]";
  const Protocol tuned = load_protocol(write_protocol(file, scratch.path()).path.string());
  EXPECT_EQ(task_settings(tuned, "listops", "python:my.py:Softplus").optimizer.lr, 0.1);
  EXPECT_EQ(task_settings(tuned, "listops", "nystrom").optimizer.lr, 1e-4);
  EXPECT_EQ(tuned.choices.back(),
            "listops: optimizer.lr 0.1 of python:my.py:Softplus[beta=2] by lra tune: mean dev "
            "accuracy 30.00 % over seeds 0, 1, the highest of 3 points, under training.steps=9");
  EXPECT_EQ(choice_subject(tuned.choices.back()).tasks, std::vector<std::string>{"listops"});
}

// What lra-strict says of all tasks is true of those alone that no search was made for.
TEST(TuneProtocol, SaysOfTheOtherTasksAloneThatNothingIsTuned) {
  const Scratch scratch;
  TuneFile file = example(cells_of({{0.5, 0.1}, {0.3, 0.3}, {0.2, 0.2}}, {{4, 4}, {4, 4}, {4, 4}}));
  const std::string line =
      "one learning rate and one short schedule for all variants, of nystromformer2021, without "
      "tuning by variant; ranks hold for this recipe alone";
  const auto untuned = [&] {
    std::vector<std::string> lines;
    for (const std::string& one : load_protocol(file.protocol).choices) {
      if (one.find(kUntuned) != std::string::npos) lines.push_back(one);
    }
    return lines;
  };
  ASSERT_EQ(untuned(), std::vector<std::string>{line});
  std::string left = "text, retrieval, image, pathfinder, pathx";
  for (const char* task : {"listops", "text", "retrieval", "image", "pathfinder", "pathx"}) {
    file.task = task;
    const fs::path out = scratch.path() / task;
    fs::create_directories(out);
    file.protocol = write_protocol(file, out).path.string();
    if (left.empty()) {
      EXPECT_EQ(untuned(), std::vector<std::string>{}) << task;
    } else {
      EXPECT_EQ(untuned(), std::vector<std::string>{left + ": " + line}) << task;
      const size_t comma = left.find(", ");
      left = comma == std::string::npos ? "" : left.substr(comma + 2);
    }
  }
}

}  // namespace
}  // namespace lra::tune
