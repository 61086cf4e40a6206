// lra_bench: its rates are those of the operations it says, and of what the machine reaches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "results/analysis/profile_cells.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

const std::filesystem::path kBench = std::filesystem::path(LRA_PROGRAM).parent_path() / "lra_bench";

json bench(const std::string& filter) {
  const ProgramResult result = Program({"--benchmark_filter=" + filter, "--benchmark_format=json",
                                        "--benchmark_min_time=0.001"},
                                       kBench)
                                   .wait();
  EXPECT_EQ(result.status, 0) << result.err;
  return json::parse(result.out);
}

TEST(BenchTest, CountsOperationsAndPartsOfTheRoofline) {
  if (!std::filesystem::exists(kBench)) GTEST_SKIP() << "Google Benchmark is not installed";
  const json said = bench("(IterativeInverse|DepthwiseConvolution)/.*/(m:32|N:512)/");
  std::smatch parts;
  const std::string roofline = said.at("context").at("roofline");
  ASSERT_TRUE(
      std::regex_search(roofline, parts, std::regex("^([0-9.e+]+) GFLOP/s, ([0-9.e+]+) GB/s")))
      << roofline;
  const double gflops = std::stod(parts[1]), gigabytes = std::stod(parts[2]);
  // Six iterations of four products of [32,32] each in 12 heads; 35 taps over [12,512,64].
  struct Known {
    std::string name;
    double flops, bytes;
  };
  const double vectors = 12 * 512 * 64;
  const std::vector<Known> all = {
      {"IterativeInverse", 6.0 * 4 * 2 * 12 * 32 * 32 * 32, 2.0 * 12 * 32 * 32 * 4},
      {"DepthwiseConvolution", 2 * vectors * 35, 2 * vectors * 4 + 12 * 35 * 4}};
  int rows = 0;
  for (const json& row : said.at("benchmarks")) {
    const std::string name = row.at("name");
    for (const Known& known : all) {
      if (!name.starts_with(known.name + "/")) continue;
      ++rows;
      const double factor = name.find("/training/") != std::string::npos ? 3 : 1;
      const double rate = row.at("GFLOP/s");
      const double seconds = row.at("real_time").get<double>() / 1e3;
      EXPECT_NEAR(rate * 1e9 * seconds / (factor * known.flops), 1, 0.01) << name;
      const double most = attainable_gflops({.gflops = gflops, .gigabytes_per_second = gigabytes},
                                            known.flops, known.bytes);
      EXPECT_NEAR(row.at("roofline").get<double>() * most / rate, 1, 0.001)
          << name << ": the context has six digits";
    }
  }
  EXPECT_EQ(rows, 2 * 2 * 2) << "two operators, fused and reference, forward and training";
}

}  // namespace
}  // namespace lra
