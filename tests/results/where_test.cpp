// Records of where a step's time goes, and their tables.
#include <gtest/gtest.h>

#include <algorithm>

#include "results/where/groups.h"
#include "results/where/record.h"
#include "results/where/table.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

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

TEST(WhereRecord, SaysTheValuesOfItsProtocolWhereTheyAreKnown) {
  Where record = example_where();
  for (const char* field : {"protocol_sha256", "own_settings_sha256"})
    EXPECT_FALSE(make_where(record).contains(field)) << "earlier records: " << field;
  record.protocol_sha256 = std::string(64, '1');
  record.own_settings_sha256 = std::string(64, '2');
  const Where back = parse_where(make_where(record));
  EXPECT_EQ(back.protocol_sha256, record.protocol_sha256);
  EXPECT_EQ(back.own_settings_sha256, record.own_settings_sha256);
}

TEST(WhereRecord, RefusesWhatItIsNot) {
  json written = make_where(example_where());
  written["ops"][0]["kind"] = "magic";
  EXPECT_THROW(parse_where(written), std::runtime_error);
  written["ops"][0]["kind"] = "rows";
  EXPECT_NO_THROW(parse_where(written));
  const auto without = [&written](const char* field) {
    json changed = written;
    changed.erase(field);
    return error_text<std::exception>([&] { parse_where(changed); });
  };
  for (const char* field : {"roofline", "ops", "step_ms", "steps", "task"})
    EXPECT_EQ(without(field), fmt::format("field '{}' is missing", field));
  written["ops"].erase(2);
  EXPECT_EQ(error_text<std::exception>([&] { parse_where(written); }),
            "field 'ops' adds up to 5.5 ms, but 'ops_ms' is 6");
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

TEST(WhereTables, PutAttentionsBesideEachOther) {
  Where slow = example_where("slow");
  slow.step_ms = 20;
  slow.outside_ms = 0;
  slow.ops[1].part = "layer 10";
  Where elsewhere = example_where("b");
  elsewhere.machine.processor = "EPYC";
  const std::vector<Where> records{slow, example_where(), elsewhere, example_where()};
  const std::vector<Table> tables = where_group_tables(records);
  ASSERT_EQ(tables.size(), 4u) << "machines are never mixed";
  EXPECT_TRUE(tables[0].title.starts_with("Time of a step by kind of work: t N=64, batch 2, "));
  EXPECT_TRUE(contains(tables[0].title, "EPYC"));
  EXPECT_TRUE(tables[2].title.ends_with("Xeon, 2 cores, 8 GiB; model.layers=1")) << tables[2].title;
  const auto headers = [](const Table& table) {
    std::vector<std::string> names;
    for (const Column& column : table.columns) names.push_back(column.header);
    return names;
  };
  using Row = std::vector<std::string>;
  EXPECT_EQ(headers(tables[2]), (Row{"attention", "step ms", "products", "copies", "in no op"}));
  ASSERT_EQ(tables[2].rows.size(), 3u);
  EXPECT_EQ(tables[2].rows[0],
            (Row{"a", "8.5", "5 (55.6\u00a0%)", "1 (11.1\u00a0%)", "3 (33.3\u00a0%)"}));
  EXPECT_EQ(tables[2].rows[1][0], "a (2)") << "measured again";
  EXPECT_EQ(tables[2].rows[2],
            (Row{"slow", "20.0", "5 (83.3\u00a0%)", "1 (16.7\u00a0%)", "0 (0.0\u00a0%)"}));
  EXPECT_EQ(headers(tables[3]),
            (Row{"attention", "step ms", "layer 1", "layer 10", "head", "no part", "in no op"}));
  EXPECT_EQ(tables[3].rows[2][3], "1 (16.7\u00a0%)");
  EXPECT_EQ(tables[3].rows[0][3], "–");
}

TEST(WhereTables, AreOfOneProtocolsValues) {
  std::vector<Where> records{example_where(), example_where("b"), example_where()};
  for (Where& record : records) record.protocol_sha256 = std::string(64, '1');
  EXPECT_EQ(where_group_tables(records).size(), 2u);
  records[2].protocol_sha256 = std::string(64, '2');
  const std::vector<Table> tables = where_group_tables(records);
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_TRUE(contains(tables[0].title, ", protocol p (values 11111111), ")) << tables[0].title;
  EXPECT_TRUE(contains(tables[2].title, ", protocol p (values 22222222), ")) << tables[2].title;
  EXPECT_EQ(tables[0].rows.size(), 2u);
  ASSERT_EQ(tables[2].rows.size(), 1u);
  EXPECT_EQ(tables[2].rows[0][0], "a") << "not measured again, but of another protocol";
  EXPECT_TRUE(contains(tables[2].notes.back(), "tables of their own")) << tables[2].notes.back();
  records[2].protocol_sha256.clear();
  EXPECT_EQ(where_group_tables(records).size(), 2u) << "earlier records say nothing of it";
}

TEST(WhereTables, AreOfOneSetOfKernels) {
  std::vector<Where> records{example_where(), example_where("b")};
  records[0].software["kernels"] = "avx2";
  EXPECT_EQ(where_group_tables(records).size(), 2u);
  records[1].software["kernels"] = "avx512";
  const std::vector<Table> tables = where_group_tables(records);
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_TRUE(contains(tables[0].title, ", cpu, kernels avx2, 1 thread, ")) << tables[0].title;
  EXPECT_TRUE(contains(tables[2].title, ", cpu, kernels avx512, 1 thread, ")) << tables[2].title;
}

TEST(WhereTables, StepsOfOtherHeadsStandApart) {
  std::vector<Where> records{example_where(), example_where()};
  EXPECT_EQ(where_groups(records).size(), 1u) << "records that do not say it";
  records[0].heads = 1;
  records[1].heads = 8;
  records[0].head_dim = records[1].head_dim = 64;
  const std::vector<WhereGroup> groups = where_groups(records);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_TRUE(contains(groups[0].setting, ", 1 head of 64, ")) << groups[0].setting;
  EXPECT_TRUE(contains(groups[1].setting, ", 8 heads of 64, ")) << groups[1].setting;
  EXPECT_EQ(make_where(parse_where(make_where(records[1])))["heads"], 8);
}

TEST(WhereTables, InDetailAreFollowedByTheOpsOfEachStep) {
  const std::vector<Where> records{example_where(), example_where("b")};
  const std::vector<Table> tables = where_detail_tables(records, 2);
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_TRUE(tables[2].title.starts_with("Ops of a: t N=64, ")) << tables[2].title;
  EXPECT_TRUE(tables[3].title.starts_with("Ops of b: t N=64, ")) << tables[3].title;
  EXPECT_EQ(tables[3].rows, where_tables(records[1], 2)[2].rows);
}

TEST(WhereTables, InLongFormHoldEveryOp) {
  const std::vector<Where> records{example_where()};
  const Table table = where_long(records);
  ASSERT_EQ(table.rows.size(), 4u);
  const auto cell = [&table](size_t row, const std::string& column) {
    const auto it = std::ranges::find(table.columns, column, &Column::header);
    return it == table.columns.end() ? "no such column"
                                     : table.rows[row].at(it - table.columns.begin());
  };
  for (const auto& row : table.rows) ASSERT_EQ(row.size(), table.columns.size());
  EXPECT_EQ(cell(0, "op"), "aten::mm");
  EXPECT_EQ(cell(0, "pass"), "backward");
  EXPECT_EQ(cell(0, "share"), "0.5");
  EXPECT_EQ(cell(0, "gflops"), "2");
  EXPECT_EQ(cell(0, "gbps"), "0.2");
  EXPECT_EQ(cell(0, "roofline_share"), "0.02");
  EXPECT_EQ(cell(0, "sets"), "model.layers=1");
  EXPECT_EQ(cell(1, "gflops"), "");
  EXPECT_EQ(cell(3, "kind"), "in no op");
  EXPECT_EQ(cell(3, "ms"), "3");
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
