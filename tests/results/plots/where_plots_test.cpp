// Where a step's time goes, as bars.
#include <gtest/gtest.h>

#include "results/plots/plots.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

TEST(WherePlots, AreABarAnAttentionByKindOfWork) {
  Where slow = example_where("slow");
  slow.step_ms = 20;
  slow.outside_ms = 0;
  const std::vector<Where> records{slow, example_where()};
  const auto plots = where_plots(records);
  ASSERT_EQ(plots.size(), 1u);
  const Plot& plot = plots[0];
  EXPECT_EQ(plot.name, "where-1");
  EXPECT_EQ(plot.rows, (std::vector<std::string>{"a: step 8.5 ms", "slow: step 20.0 ms"}));
  ASSERT_EQ(plot.series.size(), 3u) << "kinds that take no time have no part";
  EXPECT_EQ(plot.series[0].name, "products");
  EXPECT_EQ(plot.series[1].name, "copies");
  EXPECT_EQ(plot.series[2].name, "in no op");
  using Point = std::array<double, 4>;  // end, row, from, to
  EXPECT_EQ(plot.series[0].points, (std::vector<Point>{{5, 0, 0, 5}, {5, 1, 0, 5}}));
  EXPECT_EQ(plot.series[1].points, (std::vector<Point>{{6, 0, 5, 6}, {6, 1, 5, 6}}));
  EXPECT_EQ(plot.series[2].points, (std::vector<Point>{{9, 0, 6, 9}}));
  EXPECT_EQ(alt_text(plot),
            "Self time of a step by kind of work. Across: ms of a recorded step. "
            "a: step 8.5 ms: products 5, copies 1, in no op 3. "
            "slow: step 20.0 ms: products 5, copies 1.");
}

TEST(WherePlots, AreReadableOnATelephoneAndHoldTheirNames) {
  const std::vector<Where> records{example_where("b"), example_where("c")};
  const auto plots = where_plots(records);
  ASSERT_EQ(plots.size(), 1u);
  // Pages show it at least 13/20 as wide, of the 366 pixels that a page of 390 leaves.
  EXPECT_LE(plots[0].width * 13 / 20, 366);
  for (const std::string& line : plots[0].title) EXPECT_LE(line.size(), 76u) << line;
  const std::string script = plot_script(plots[0]);
  EXPECT_TRUE(contains(script, "$d0 << EOD\n5 0 0 5\n5 1 0 5\nEOD\n")) << script;
  EXPECT_TRUE(contains(script, "using 1:2:3:4:($2-0.15):($2+0.35) with boxxyerror")) << script;
  EXPECT_TRUE(contains(script, "'b: step 8.5 ms' at first 0, first -0.4 left")) << script;
  EXPECT_TRUE(contains(script, "'c: step 8.5 ms' at first 0, first 0.6 left")) << script;
  EXPECT_TRUE(contains(script, "set yrange [1.5:-0.6]")) << script;
}

TEST(WherePlots, NeverMixMachinesAndKeepTheirColours) {
  Where other = example_where("b");
  other.machine.cores = 64;
  const std::vector<Where> records{example_where("a"), other};
  auto plots = where_plots(records);
  ASSERT_EQ(plots.size(), 2u);
  EXPECT_EQ(plots[1].name, "where-2");
  const auto looks = plots;
  share_looks(plots);
  for (size_t i = 0; i < plots[0].series.size(); ++i)
    EXPECT_EQ(plots[0].series[i].look, looks[0].series[i].look) << "a kind is no attention";
  EXPECT_TRUE(where_plots({}).empty());
}

}  // namespace
}  // namespace lra
