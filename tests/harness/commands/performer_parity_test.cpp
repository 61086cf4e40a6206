// What performer-pytorch itself gives as gradients, against its forward with the maximum
// differentiated.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/attend/attend_file.h"

namespace lra {
namespace {

// It detaches the maximum that it subtracts in the exponent, which does not cancel: the output
// agrees, and the gradients are not those of that output. attend-performer-softmax.safetensors
// holds the same input with the detach taken off, and there the gradients agree.
TEST(PerformerParity, PackageDetachesTheMaximum) {
  const TensorFile fixture =
      read_tensors(LRA_SOURCE_DIR "/tests/fixtures/detached-performer.safetensors");
  const TensorFile out = attend_file(parse_attention(fixture.metadata.at("attention")), fixture);
  const auto deviation = [&](const std::string& name) {
    const torch::Tensor theirs = fixture.at("expected." + name);
    return ((out.at(name) - theirs).abs().max() / theirs.abs().max()).item<double>();
  };
  EXPECT_LT(deviation("output"), 1e-12);
  EXPECT_LT(deviation("grad.v"), 1e-12);
  EXPECT_GT(deviation("grad.q"), 1e-4);
  EXPECT_GT(deviation("grad.k"), 1e-4);
}

// Of the fixtures that the package made as it is; parity_test.cpp holds them with the option that
// they name.
TEST(PerformerParity, DetachedGradientsAreThePackagesAndAttachedAreNot) {
  for (const std::string name : {"softmax", "masked", "large-norm", "prescale"}) {
    const TensorFile fixture = read_tensors(
        LRA_SOURCE_DIR "/tests/fixtures/attend-performer-detached-" + name + ".safetensors");
    AttentionSpec spec = parse_attention(fixture.metadata.at("attention"));
    ASSERT_EQ(spec.options["max_gradient"], "detached") << name;
    const auto largest = [&](const TensorFile& out) {
      double worst = 0;
      for (const char* key : {"grad.q", "grad.k"}) {
        const torch::Tensor theirs = fixture.at(std::string("expected.") + key);
        worst = std::max(worst,
                         ((out.at(key) - theirs).abs().max() / theirs.abs().max()).item<double>());
      }
      return worst;
    };
    EXPECT_LT(largest(attend_file(spec, fixture)), 1e-10) << name;
    spec.options["max_gradient"] = "attached";
    EXPECT_GT(largest(attend_file(spec, fixture)), 1e-5) << name;
  }
}

// The maximum over the whole batch that the package took until 1.1.1 decides the result.
TEST(PerformerParity, KeyMaximumOfTheBatchIsAnotherFunction) {
  for (const std::string name : {"batch-max", "batch-max-padded"}) {
    const TensorFile fixture =
        read_tensors(LRA_SOURCE_DIR "/tests/fixtures/attend-performer-" + name + ".safetensors");
    AttentionSpec spec = parse_attention(fixture.metadata.at("attention"));
    ASSERT_EQ(spec.options["key_max"], "batch") << name;
    spec.options["key_max"] = "sample";
    const torch::Tensor real = fixture.at("mask").unsqueeze(1).unsqueeze(-1),
                        theirs = fixture.at("expected.output");
    const torch::Tensor error = (attend_file(spec, fixture).at("output") - theirs) * real;
    EXPECT_GT((error.abs().max() / theirs.abs().max()).item<double>(), 1e-6) << name;
  }
}

}  // namespace
}  // namespace lra
