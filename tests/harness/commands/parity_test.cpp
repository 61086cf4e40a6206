// Variants against public implementations: fixtures made by tests/parity/*.py, run through
// attend_file() as `lra attend` does.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "harness/attend/attend_file.h"

namespace lra {
namespace {

std::vector<std::filesystem::path> fixtures() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LRA_SOURCE_DIR "/tests/fixtures")) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("attend-", 0) == 0 && entry.path().extension() == ".safetensors")
      paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

// The largest deviation from the peer in output and all gradients, each relative to the largest
// value of the peer's tensor. Rows of padded queries are zero here and something else in the peers.
double deviation(const std::filesystem::path& path, torch::ScalarType type) {
  const TensorFile fixture = read_tensors(path);
  TensorFile in;
  for (const auto& [name, tensor] : fixture.tensors) {
    if (name.rfind("expected.", 0) == 0) continue;
    in.tensors.emplace_back(name, tensor.is_floating_point() ? tensor.to(type) : tensor);
  }
  const TensorFile out = attend_file(parse_attention(fixture.metadata.at("attention")), in);
  const torch::Tensor real = fixture.at("mask").unsqueeze(1).unsqueeze(-1);
  double worst = 0;
  size_t compared = 0;
  for (const auto& [name, expected] : fixture.tensors) {
    const std::string prefix = "expected.";
    if (name.rfind(prefix, 0) != 0) continue;
    torch::Tensor ours = out.at(name.substr(prefix.size())).to(torch::kDouble), theirs = expected;
    if (name == "expected.output") {
      ours = ours * real;
      theirs = theirs * real;
    }
    EXPECT_EQ(ours.sizes(), theirs.sizes()) << name;
    // What has no gradient at all in the peer is compared absolutely.
    const double largest = theirs.abs().max().item<double>();
    const double error = (ours - theirs).abs().max().item<double>() / (largest > 0 ? largest : 1);
    EXPECT_TRUE(std::isfinite(error)) << name;
    worst = std::max(worst, error);
    ++compared;
  }
  EXPECT_EQ(compared, out.tensors.size()) << "every result is compared";
  return worst;
}

class Parity : public testing::TestWithParam<std::filesystem::path> {};

std::string fixture_name(const testing::TestParamInfo<std::filesystem::path>& info) {
  std::string name = info.param.stem().string().substr(7);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Peers, Parity, testing::ValuesIn(fixtures()), fixture_name);

TEST_P(Parity, OutputAndGradientsInFloat64) {
  EXPECT_LT(deviation(GetParam(), torch::kDouble), 1e-10);
}

TEST_P(Parity, OutputAndGradientsInFloat32) {
  EXPECT_LT(deviation(GetParam(), torch::kFloat), 1e-4);
}

// The options that stand for what a peer does matter: without them the same fixture is far off.
TEST(ParityOptions, DecideTheResult) {
  const std::string folder = LRA_SOURCE_DIR "/tests/fixtures/attend-";
  for (const auto& [name, spec] : {
           std::pair{"transformers-global",
                     "nystrom[num_landmarks=8,conv_kernel_size=7,init=per_matrix,padding=ignored]"},
           {"transformers-global",
            "nystrom[num_landmarks=8,conv_kernel_size=7,init=global,padding=masked]"},
           {"lucidrains-padded",
            "nystrom[num_landmarks=8,conv_kernel_size=7,init=global,padding=zeroed]"},
       }) {
    const TensorFile fixture = read_tensors(folder + name + ".safetensors");
    const TensorFile out = attend_file(parse_attention(spec), fixture);
    const torch::Tensor real = fixture.at("mask").unsqueeze(1).unsqueeze(-1);
    const double error =
        ((out.at("output") - fixture.at("expected.output")) * real).abs().max().item<double>();
    EXPECT_GT(error, 1e-5) << name << " " << spec;
  }
}

}  // namespace
}  // namespace lra
