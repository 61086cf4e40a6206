// The published numbers: strict reading, and the stored tables against what the papers print.
#include "results/records/published.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <regex>
#include <sstream>

#include "tests/results/examples.h"

namespace lra {
namespace {

const Published& paper(const std::string& name) {
  for (const Published& p : published()) {
    if (p.name == name) return p;
  }
  throw std::runtime_error("no " + name);
}

TEST(Published, HoldsThePapersByName) {
  std::vector<std::string> names;
  for (const Published& p : published()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"nystromformer2021", "skyformer2021", "tay2020"}));
}

// The averages are an account of the rows that the papers made themselves.
TEST(Published, PrintedAveragesAreThoseOfTheRows) {
  for (const Published& p : published()) {
    for (const auto& row : p.accuracy->rows) {
      if (!row.average) continue;
      const double sum = std::accumulate(row.values.begin(), row.values.end(), 0.0);
      const double average = sum / static_cast<double>(row.values.size());
      if (p.name == "tay2020" && row.name == "Sinkhorn") {
        EXPECT_NEAR(average, 51.476, 1e-9);  // the paper prints 51.29
      } else if (p.name == "tay2020" && row.name == "Linear") {
        EXPECT_NEAR(average, 50.552, 1e-9);
      } else {
        EXPECT_NEAR(average, *row.average, 0.0151) << p.name << " " << row.name;
      }
    }
  }
}

// Every number stands in the papers' tables as they were copied by hand, too.
TEST(Published, NumbersAreThoseOfTheSpecification) {
  std::ifstream stream(LRA_SOURCE_DIR "/tests/reference/papers.md");
  ASSERT_TRUE(stream);
  std::ostringstream buffer;
  buffer << stream.rdbuf();
  const std::string text = buffer.str();
  const auto number = [](double value, const char* format) {
    char out[32];
    std::snprintf(out, sizeof out, format, value);
    return std::string(out);
  };
  for (const char* name : {"nystromformer2021", "tay2020"}) {
    for (const auto& row : paper(name).accuracy->rows) {
      std::string line = "| " + row.name;
      for (const double value : row.values) line.append(" | ").append(number(value, "%.2f"));
      line.append(" | ").append(number(*row.average, "%.2f")).append(" |");
      EXPECT_TRUE(contains(text, line)) << line;
    }
  }
  for (const auto& row : paper("skyformer2021").accuracy->rows) {
    std::string values;
    for (const double value : row.values) values.append("\\s").append(number(value, "%.2f"));
    EXPECT_TRUE(std::regex_search(text, std::regex(values.substr(2)))) << row.name;
  }
  const PublishedCost& table1 = *paper("nystromformer2021").cost;
  for (const auto& row : table1.rows) {
    std::string line = "| " + row.name;
    for (size_t i = 0; i < table1.lengths.size(); ++i) {
      line.append(" | ")
          .append(number(row.memory[i], "%g"))
          .append("/")
          .append(number(row.time[i], "%.1f"));
    }
    EXPECT_TRUE(contains(text, line + " |")) << line;
  }
  const auto plain = [](double value) {
    std::string out = std::to_string(value).substr(0, 4);
    return value < 1 ? out.substr(1) : out;  // .85
  };
  for (const auto& row : paper("tay2020").cost->rows) {
    std::string memory;
    for (const double value : row.memory)
      memory.append(memory.empty() ? "" : "/").append(plain(value));
    EXPECT_TRUE(contains(text, memory)) << row.name << " " << memory;
  }
}

TEST(Published, FindsTheNumberOfAVariantByItsOptions) {
  const PublishedAccuracy& accuracy = *paper("nystromformer2021").accuracy;
  AttentionRecord nystrom{.name = "nystrom",
                          .label = "nystrom",
                          .options = {{"num_landmarks", 64}, {"conv_kernel_size", 35}}};
  EXPECT_EQ(accuracy.value("listops", nystrom), 37.15);
  nystrom.options["num_landmarks"] = 32;
  EXPECT_EQ(accuracy.value("listops", nystrom), std::nullopt);
  EXPECT_EQ(accuracy.value("nothing", nystrom), std::nullopt);
  const AttentionRecord pending{
      .name = "nystrom", .label = "nystrom[num_landmarks=32]", .options = json::object()};
  EXPECT_EQ(accuracy.value("listops", pending), std::nullopt);
  const AttentionRecord plain{.name = "nystrom", .label = "nystrom", .options = json::object()};
  EXPECT_EQ(accuracy.value("listops", plain), 37.15);
}

TEST(Published, VariantsAreReadStrictly) {
  EXPECT_EQ(parse_variant("a[x=1,y=true,z=w]").options, (json{{"x", 1}, {"y", true}, {"z", "w"}}));
  for (const char* text : {"", "[x=1]", "a[x=1", "a[x]", "a[=1]"}) {
    EXPECT_EQ(message_of([&] { parse_variant(text); }),
              std::string("variant '") + text + "' should be name or name[key=value,...]");
  }
}

TEST(Published, FilesAreReadStrictly) {
  const json good = {{"schema", "lra.published/1"},
                     {"name", "n"},
                     {"source", "s"},
                     {"accuracy",
                      {{"where", "w"},
                       {"unit", "%"},
                       {"protocols", {"p"}},
                       {"differences", json::object()},
                       {"tasks", {"listops"}},
                       {"test_examples", {{"listops", 2000}}},
                       {"rows", {{{"name", "r"}, {"variant", "v"}, {"values", {1.5}}}}}}}};
  EXPECT_EQ(parse_published(good.dump(), "f").accuracy->rows[0].values[0], 1.5);
  const auto with = [&good](const char* pointer, const json& value) {
    json changed = good;
    changed[json::json_pointer(pointer)] = value;
    return message_of([&] { parse_published(changed.dump(), "f.json"); });
  };
  EXPECT_EQ(with("/sauce", 1),
            "f.json: unknown key 'sauce'; valid: schema, name, source, accuracy, cost");
  EXPECT_EQ(with("/schema", "x"), "f.json: 'schema' should be lra.published/1");
  EXPECT_EQ(with("/accuracy/unit", "fraction"), "f.json: accuracy: 'unit' should be %");
  EXPECT_EQ(with("/accuracy/rows/0/values", {1.5, 2}),
            "f.json: accuracy.rows: 'values' should hold 1 numbers, not 2");
  EXPECT_EQ(with("/accuracy/rows/0/values/0", 137.1),
            "f.json: accuracy.rows: 137.1 % is above 100");
  EXPECT_EQ(with("/accuracy/test_examples", json::object()),
            "f.json: accuracy.test_examples: key 'listops' is missing");
  EXPECT_EQ(with("/accuracy/differences/q", "x"),
            "f.json: accuracy.differences: unknown key 'q'; valid: p");
  EXPECT_TRUE(
      contains(message_of([] { parse_published("{", "f.json"); }), "f.json: not valid JSON"));
}

}  // namespace
}  // namespace lra
