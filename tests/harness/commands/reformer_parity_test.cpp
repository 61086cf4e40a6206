// Where a public Reformer differs by its handling of padding: reformer-pytorch hashes padded tokens
// like any other, so that they fill chunks and decide which tokens see each other.
#include <gtest/gtest.h>

#include "harness/attend/attend_file.h"

namespace lra {
namespace {

// Two samples that differ in what stands at their padded positions alone: tokens [2,H,L,d] of
// `all`, and their largest difference.
double difference_of_samples(const torch::Tensor& all, const torch::Tensor& mask) {
  const torch::Tensor real = mask[0].unsqueeze(0).unsqueeze(-1);
  return ((all[0] - all[1]) * real).abs().max().item<double>();
}

TEST(ReformerParity, PaddingChangesThePeerAndNotThisOne) {
  const TensorFile fixture =
      read_tensors(LRA_SOURCE_DIR "/tests/fixtures/peer-reformer-pytorch-padded.safetensors");
  const torch::Tensor &mask = fixture.at("mask"), &theirs = fixture.at("expected.output");
  const torch::Tensor ours =
      attend_file(parse_attention(fixture.metadata.at("attention")), fixture).at("output");
  EXPECT_GT(difference_of_samples(theirs, mask), 1e-2);
  EXPECT_LT(difference_of_samples(ours, mask), 1e-14);
  // So one of its samples, at least, is not what is computed here.
  const torch::Tensor real = mask.unsqueeze(1).unsqueeze(-1);
  EXPECT_GT(((ours - theirs) * real).abs().max().item<double>(), 1e-2);
}

}  // namespace
}  // namespace lra
