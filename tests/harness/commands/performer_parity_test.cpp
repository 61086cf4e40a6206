// What performer-pytorch itself gives as gradients, against its forward with the maximum
// differentiated.
#include <gtest/gtest.h>

#include "harness/commands/attend_file.h"

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

}  // namespace
}  // namespace lra
