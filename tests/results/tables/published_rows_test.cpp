// Published numbers beside the measured ones: whose they are, and where they may not stand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "results/print/html.h"
#include "results/print/latex.h"
#include "results/tables/accuracy_table.h"
#include "tests/results/examples.h"
#include "tests/results/tables/table_text.h"

namespace lra {
namespace {

TEST(PublishedRows, FootnotesSayWhoMadeThePublishedNumbersAndTheirSlips) {
  Result run = example_result("sinkhorn");
  run.protocol = "tay2020";
  const auto tables = accuracy_tables(std::vector<Result>{run});
  EXPECT_EQ(published_beside(tables[0], "sinkhorn"), "33.67");
  const std::string text = text_of(tables);
  EXPECT_TRUE(contains(text,
                       "ICLR 2021, Table 1, arXiv 2011.04006 v1 (2020-11); official, made by "
                       "LRA's authors"));
  EXPECT_TRUE(contains(text, "slip in tay2020: Sinkhorn's average is printed as 51.39"));
  EXPECT_TRUE(
      contains(text, "difference of protocol, tay2020 against tay2020: the table predates"));
}

// Runs of every pair of a published set and a protocol that it may stand beside.
TEST(PublishedRows, WhatDiffersFromThePublishedRunsStandsBelowEveryTable) {
  int pairs = 0;
  for (const Published& reference : published()) {
    for (const std::string& protocol : reference.accuracy->protocols) {
      const std::vector<Published> alone{reference};
      const PublishedAccuracy::Row& row = reference.accuracy->rows.front();
      Result run = example_result(row.variant->name);
      run.protocol = protocol;
      const std::vector<Result> runs{run};
      const std::string note =
          fmt::format("difference of protocol, {} against {}: {}", protocol, reference.name,
                      reference.accuracy->differences.at(protocol));
      const auto accuracy = accuracy_tables(runs, alone),
                 differences = published_difference_tables(runs, alone);
      ASSERT_EQ(accuracy.size(), 1u) << note;
      ASSERT_EQ(differences.size(), 1u) << note;
      for (const Table* table : {&accuracy[0], &differences[0]}) {
        EXPECT_EQ(std::ranges::count(table->notes, note), 1) << note << "\n" << to_text(*table);
        for (const std::string& slip : reference.accuracy->slips) {
          EXPECT_EQ(std::ranges::count(table->notes, "slip in " + reference.name + ": " + slip), 1)
              << slip;
        }
        const std::string head = "difference of protocol, " + protocol + " against ";
        for (const std::string& text :
             {to_text(*table), to_markdown(*table), to_html(*table), to_latex(*table, "x")})
          EXPECT_TRUE(contains(text, head)) << text;
      }
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 7);
}

TEST(PublishedRows, TheAverageIsThatOfThePaperOrNone) {
  std::vector<Result> runs;
  const auto last_of_row = [&] {
    const std::vector<Table> tables = accuracy_tables(runs);
    for (const auto& row : tables.at(0).rows) {
      if (row[0] == std::string("sinkhorn") + kPublishedRow) return row.back();
    }
    return std::string("(no such row)");
  };
  for (const char* task : {"listops", "text", "retrieval", "image", "pathfinder"}) {
    if (runs.size() == 4) {
      EXPECT_EQ(last_of_row(), "–") << "of four tasks none was printed";
    }
    runs.push_back(example_result("sinkhorn"));
    runs.back().protocol = "tay2020";
    runs.back().task = task;
    runs.back().data.fingerprint = std::string(64, task[0]);
  }
  EXPECT_EQ(last_of_row(), "51.39") << "whatever the row's own numbers average";
}

TEST(PublishedRows, AReleasedFormStandsBesideThePublishedRowOfItsName) {
  for (const auto& [name, row, percent] : {std::tuple{"local", "Local", "15.82"},
                                           {"reformer", "Reformer", "37.27"},
                                           {"sinkhorn", "Sinkhorn", "33.67"},
                                           {"performer", "Performer", "18.01"},
                                           {"synthesizer", "Synthesizer", "36.99"}}) {
    Result run = example_result(std::string(name) + "_tay2020");
    run.protocol = "tay2020";
    Result standard = example_result("standard");
    standard.protocol = "tay2020";
    const std::vector<Result> runs{run, standard};
    const Table accuracy = accuracy_tables(runs)[0], beside = published_difference_tables(runs)[0];
    EXPECT_EQ(published_beside(accuracy, run.attention.name), percent);
    EXPECT_EQ(beside.rows.size(), 2u) << to_text(beside);
    const std::string note =
        fmt::format("{}_tay2020: what the released code calls {}, beside the published row {}",
                    name, name, row);
    for (const Table* table : {&accuracy, &beside}) {
      EXPECT_EQ(std::ranges::count(table->notes, note), 1) << to_text(*table);
      EXPECT_FALSE(contains(to_text(*table), "standard: what the released code"));
    }
    EXPECT_TRUE(contains(to_csv(accuracy_long(runs)), std::string(percent) + ",tay2020"));
    run.attention = {.name = name, .label = name, .options = json::object()};
    EXPECT_FALSE(
        contains(text_of(accuracy_tables(std::vector<Result>{run})), "released code calls"))
        << "a run of the paper's function is not marked";
  }
}

// Even where a set says that it may, and however well its name sorts.
TEST(PublishedRows, ALaterRegimeNeverStandsBesideIntervals) {
  std::vector<Published> references = published();
  Published later = references.front();
  later.name = "aaa";
  later.accuracy->regime = Regime::later;
  later.accuracy->protocols = {"lra-strict"};
  later.accuracy->tasks = {"listops"};
  later.accuracy->rows = {
      {.name = "x", .variant = parse_variant("nystrom"), .values = {99.5}, .average = 99.5}};
  references.insert(references.begin(), later);
  const std::vector<Result> runs{example_result("nystrom")};
  EXPECT_EQ(published_beside(accuracy_tables(runs, references)[0], "nystrom"), "37.15");
  const std::string text = text_of(accuracy_tables(runs, references)) +
                           text_of(published_difference_tables(runs, references)) +
                           to_csv(accuracy_long(runs, references));
  EXPECT_FALSE(contains(text, "99.5"));
  for (const char* number : {"59.60", "58.35", "60.47", "62.15", "63.14", "60.20"})
    EXPECT_FALSE(contains(text, number)) << number;
}

TEST(PublishedRows, OtherRegimesHaveTablesOfTheirOwnThatSayWhetherPathXIsIn) {
  const std::vector<Table> tables = other_regime_tables();
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_TRUE(contains(tables[0].title, "\"self-reported\""));
  EXPECT_TRUE(contains(tables[1].title, "\"later\""));
  EXPECT_TRUE(contains(tables[1].title, "no intervals"));
  EXPECT_EQ(cell(tables[1], "S5", "pathx %"), "98.58");
  EXPECT_EQ(cell(tables[1], "S5", "average"), "87.46");
  EXPECT_EQ(cell(tables[1], "S5", "average of"), "6 tasks, with pathx");
  EXPECT_EQ(cell(tables[1], "Luna-256", "pathx %"), "–");
  EXPECT_EQ(cell(tables[1], "Luna-256", "average of"), "–");
  EXPECT_EQ(cell(tables[1], "Transformer", "average"), "(no such cell)");
  EXPECT_EQ(cell(tables[0], "TLB", "image %"), "57.51");
  EXPECT_TRUE(contains(text_of(tables), "lru-2023: Image is of coloured CIFAR-10"));
  for (const Table& table : tables) EXPECT_FALSE(contains(to_text(table), "37.15"));
  Published five = *std::ranges::find(published(), "lra-readme", &Published::name);
  five.accuracy->rows = {{.name = "y", .variant = {}, .values = {1, 2, 3, 4, 5}, .average = 3}};
  EXPECT_EQ(cell(other_regime_tables(std::vector<Published>{five})[0], "y", "average of"),
            "5 tasks, without pathx");
}

}  // namespace
}  // namespace lra
