// Pictures as gnuplot draws them, or does not.
#include "harness/report/plots.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "results/print/gnuplot.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

// gnuplot ends well where it could not write.
TEST(DrawPlots, APictureThatIsCutShortIsNone) {
  const Scratch scratch;
  const std::filesystem::path bin = scratch.path() / "bin", work = scratch.path() / "work";
  for (const auto& folder : {bin, work}) std::filesystem::create_directory(folder);
  write_file(bin / "gnuplot",
             "#!/bin/sh\ncase $1 in cut.gp) echo '<svg>' > cut.svg;;\n"
             "*) echo '<svg></svg>' > whole.svg; echo '%%EOF' > whole.pdf;; esac\n");
  std::filesystem::permissions(bin / "gnuplot", std::filesystem::perms(0755));
  const ScopedVariable path("PATH", (bin.string() + ":/usr/bin:/bin").c_str());
  EXPECT_EQ(
      draw_plots(work, {"whole.gp", "cut.gp"}),
      std::vector<std::string>{"gnuplot cut.gp: its picture is cut short; is the disk full?"});
  EXPECT_FALSE(std::filesystem::exists(work / "cut.svg"));
  EXPECT_TRUE(std::filesystem::exists(work / "whole.svg"));
}

// Of every width, and of a name with all that gnuplot could take for something else.
TEST(DrawPlots, LongNamesStandInTheKey) {
  if (host::run_child({"--version"}, {.capture = true, .program = "gnuplot"}).exit != 0)
    GTEST_SKIP() << "gnuplot is not installed";
  const Scratch scratch;
  const std::string hostile = "it's `touch x` \"y\" \\ ";
  for (const int width : {560, 640, 700, 1000}) {
    for (const size_t letters : {60, 72, 84, 96, 130}) {
      Plot plot{.name = fmt::format("p{}-{}", width, letters), .x_title = "x", .y_title = "y"};
      plot.width = width;
      plot.series.assign(3,
                         {.name = hostile + std::string(letters - hostile.size() - 4, 'w') + " end",
                          .points = {{1, 2, 2, 2}, {2, 3, 3, 3}}});
      write_file(scratch.path() / (plot.name + ".gp"), plot_script(plot));
      EXPECT_EQ(draw_plots(scratch.path(), {plot.name + ".gp"}), std::vector<std::string>{});
      const std::string drawn = read_file(scratch.path() / (plot.name + ".svg"));
      EXPECT_NE(drawn.find("<text>it’s `touch x` \"y\" \\ w"), std::string::npos) << plot.name;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "x"));
}

TEST(DrawPlots, AKeyThatIsLeftOutIsTold) {
  const Scratch scratch;
  const std::filesystem::path bin = scratch.path() / "bin";
  std::filesystem::create_directory(bin);
  write_file(bin / "gnuplot",
             "#!/bin/sh\necho '<svg></svg>' > p.svg\n"
             "echo 'Warning - difficulty fitting plot titles into key' >&2\n");
  std::filesystem::permissions(bin / "gnuplot", std::filesystem::perms(0755));
  const ScopedVariable path("PATH", (bin.string() + ":/usr/bin:/bin").c_str());
  EXPECT_EQ(draw_plots(scratch.path(), {"p.gp"}),
            std::vector<std::string>{"gnuplot p.gp: Warning - difficulty fitting plot titles into "
                                     "key; its key may be missing"});
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "p.svg"));
}

}  // namespace
}  // namespace lra
