// Records of where a step's time goes, and their tables.
#include <gtest/gtest.h>

#include "results/where/record.h"
#include "results/where/table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

// Ten milliseconds: six in ops, three outside, and one of the recording.
Where example_where() {
  Where record;
  record.attention = {.name = "a", .label = "a", .options = json::object()};
  record.length = 64;
  record.batch = 2;
  record.protocol = "p";
  record.task = "t";
  record.sets = json::array({"model.layers=1"});
  record.dtype = "float32";
  record.device = "cpu";
  record.threads = 1;
  record.steps = 3;
  record.step_ms = 8.5;
  record.recorded_ms = 10;
  record.recording_ms = 1;
  record.ops_ms = 6;
  record.outside_ms = 3;
  record.roofline = {.gflops = 100, .gigabytes_per_second = 10};
  record.ops = {{.kind = WorkKind::products,
                 .op = "aten::mm",
                 .part = "layer 1",
                 .pass = StepPass::backward,
                 .calls = 2,
                 .ms = 4.5,
                 .flops = 9e6,
                 .bytes = 9e5,
                 .roofline = 0.02},
                {.kind = WorkKind::copies, .op = "aten::copy_", .calls = 1, .ms = 1},
                {.kind = WorkKind::products, .op = "aten::mm", .part = "head", .ms = 0.5}};
  record.machine = {.processor = "Xeon", .cores = 2, .memory_gib = 8, .gpu = ""};
  record.software = {{"lra", "0.1.0"}};
  return record;
}

TEST(WhereRecord, ComesBackAsItWas) {
  const json written = make_where(example_where());
  EXPECT_EQ(written["schema"], kWhereSchema);
  EXPECT_EQ(written["ops"][0]["kind"], "products");
  EXPECT_EQ(written["ops"][0]["pass"], "backward");
  EXPECT_EQ(written["ops"][0]["flops"], 9e6);
  for (const char* absent : {"part", "flops", "bytes", "roofline_share"})
    EXPECT_FALSE(written["ops"][1].contains(absent)) << absent;
  EXPECT_EQ(make_where(parse_where(written)), written);
}

TEST(WhereRecord, RefusesWhatItIsNot) {
  json written = make_where(example_where());
  written["ops"][0]["kind"] = "magic";
  EXPECT_THROW(parse_where(written), std::runtime_error);
  written["ops"][0]["kind"] = "rows";
  EXPECT_NO_THROW(parse_where(written));
  written.erase("roofline");
  EXPECT_THROW(parse_where(written), std::runtime_error);
}

TEST(WhereTables, AddUpByKindAndPart) {
  const std::vector<Table> tables = where_tables(example_where(), 2);
  ASSERT_EQ(tables.size(), 3u);
  using Row = std::vector<std::string>;
  const auto without_bar = [](Row row) {
    row.pop_back();
    return row;
  };
  ASSERT_EQ(tables[0].rows.size(), 3u);
  EXPECT_EQ(without_bar(tables[0].rows[0]), (Row{"products", "5", "55.6 %"}));
  EXPECT_EQ(without_bar(tables[0].rows[1]), (Row{"in no op", "3", "33.3 %"}));
  EXPECT_EQ(without_bar(tables[0].rows[2]), (Row{"copies", "1", "11.1 %"}));
  EXPECT_EQ(display_width(tables[0].rows[1].back()), 10u) << "a third of 30 columns";
  ASSERT_EQ(tables[1].rows.size(), 4u);
  EXPECT_EQ(without_bar(tables[1].rows[0]), (Row{"layer 1", "4.5", "50.0 %"}));
}

TEST(WhereTables, ShowRatesWhereTheyAreKnown) {
  const Table ops = where_tables(example_where(), 2)[2];
  ASSERT_EQ(ops.rows.size(), 2u);
  using Row = std::vector<std::string>;
  EXPECT_EQ(ops.rows[0], (Row{"products", "aten::mm", "layer 1", "backward", "2", "4.5", "50.0 %",
                              "2", "0.2", "2.0 %"}));
  EXPECT_EQ(ops.rows[1],
            (Row{"copies", "aten::copy_", "–", "forward", "1", "1", "11.1 %", "–", "–", "–"}));
  ASSERT_EQ(ops.notes.size(), 2u);
  EXPECT_EQ(ops.notes[0], "1 more take 0.5 ms together");
  EXPECT_EQ(where_tables(example_where(), 3)[2].notes.size(), 1u) << "nothing is left out";
}

}  // namespace
}  // namespace lra
