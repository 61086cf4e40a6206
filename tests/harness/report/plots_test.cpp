// Pictures as gnuplot draws them, or does not.
#include "harness/report/plots.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "attention_variants/base/files.h"
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

}  // namespace
}  // namespace lra
