// Variants that are their whole layer against public implementations: fixtures made by
// tests/parity/make_mixer_fixtures.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "attention_variants/registry.h"
#include "lra/formats/safetensors.h"

namespace lra {
namespace {

std::vector<std::filesystem::path> mixer_fixtures() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LRA_SOURCE_DIR "/tests/fixtures")) {
    if (entry.path().filename().string().starts_with("mixer-")) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

// The largest deviation from the peer in output and gradients, relative to its largest value, or 1.
double mixer_deviation(const std::filesystem::path& path, torch::ScalarType type) {
  const TensorFile fixture = read_tensors(path);
  const torch::Tensor x = fixture.at("x").to(type).requires_grad_();
  const auto attention = make_attention(
      parse_attention(fixture.metadata.at("attention")),
      {.width = x.size(2), .heads = 1, .head_dim = x.size(2), .max_length = x.size(1)});
  attention->to(type);
  std::vector<torch::Tensor> leaves = {x};
  std::vector<std::string> names = {"x"};
  for (const auto& item : attention->named_parameters()) {
    const torch::NoGradGuard no_grad;
    torch::Tensor parameter = item.value();
    EXPECT_EQ(parameter.sizes(), fixture.at("param." + item.key()).sizes()) << item.key();
    parameter.copy_(fixture.at("param." + item.key()));
    leaves.push_back(parameter);
    names.push_back("param." + item.key());
  }
  const torch::Tensor out =
      attention->forward(x, torch::ones({x.size(0), x.size(1)}, torch::kBool));
  auto gradients = torch::autograd::grad({out}, leaves, {fixture.at("grad_output").to(type)},
                                         std::nullopt, /*create_graph=*/false,
                                         /*allow_unused=*/true);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = torch::zeros_like(leaves[i]);
  }
  const auto off = [&](const torch::Tensor& ours, const std::string& name) {
    const torch::Tensor& theirs = fixture.at("expected." + name);
    const double error = (ours.detach() - theirs).abs().max().item<double>(),
                 largest = theirs.abs().max().item<double>();
    EXPECT_TRUE(std::isfinite(error)) << name;
    // The gradients of Mega's scale and shift are small sums of terms of order 1, which the peer
    // adds in float32.
    return error / std::max(largest, 1.0);
  };
  double worst = off(out, "output");
  for (size_t i = 0; i < leaves.size(); ++i)
    worst = std::max(worst, off(gradients[i], "grad." + names[i]));
  return worst;
}

TEST(MixerParity, OutputsAndGradientsAreThoseOfPublicPackages) {
  ASSERT_GE(mixer_fixtures().size(), 5u);
  for (const std::filesystem::path& path : mixer_fixtures()) {
    const bool exact = read_tensors(path).at("x").scalar_type() == torch::kDouble;
    EXPECT_LT(mixer_deviation(path, torch::kDouble), exact ? 1e-12 : 1e-5) << path;
    EXPECT_LT(mixer_deviation(path, torch::kFloat), 1e-5) << path;
  }
}

}  // namespace
}  // namespace lra
