// lra attend as a user meets it: files in and out, and what it refuses.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "lra/formats/safetensors.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class AttendCommandTest : public testing::Test {
 protected:
  Words words(const fs::path& input, const std::string& attention) const {
    return {"attend",       "--attention", attention,       "--input",
            input.string(), "--output",    output_.string()};
  }
  // Writes `file` as an input.
  fs::path write(const TensorFile& file) const {
    const fs::path path = scratch_.path() / "in.safetensors";
    write_tensors(path, file);
    return path;
  }

  const fs::path fixture_ = LRA_SOURCE_DIR "/tests/fixtures/attend-lucidrains-padded.safetensors";
  const TensorFile given_ = read_tensors(fixture_);  // q, k, v [3,2,32,8] Double
  const std::string attention_ = given_.metadata.at("attention");
  Scratch scratch_;
  fs::path output_ = scratch_.path() / "out.safetensors";
};

TEST_F(AttendCommandTest, WritesOutputAndGradientsOfAPublicImplementation) {
  const ProgramResult result = run_program(words(fixture_, attention_));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.text(), "");
  const TensorFile out = read_tensors(output_);
  EXPECT_EQ(out.metadata.at("attention"), parse_attention(attention_).text());
  EXPECT_EQ(json::parse(out.metadata.at("options"))["init"], "global");
  const torch::Tensor real = given_.at("mask").unsqueeze(1).unsqueeze(-1);  // [B,1,N,1]
  const torch::Tensor expected = given_.at("expected.output") * real;       // [B,H,N,d]
  EXPECT_LT((out.at("output") - expected).abs().max().item<double>(), 1e-10);
  for (const char* name : {"grad.q", "grad.k", "grad.v", "grad.param.conv.weight"}) {
    const torch::Tensor peer = given_.at(std::string("expected.") + name);
    const double scale = peer.abs().max().item<double>();
    EXPECT_LT((out.at(name) - peer).abs().max().item<double>(), 1e-10 * scale) << name;
  }
}

TEST_F(AttendCommandTest, AMaskIsOfEveryInputOrOfNone) {
  const torch::Tensor tokens = torch::randint(1, 90, {2, 24}, torch::kLong),
                      mask = torch::arange(24).lt(16).expand({2, 24}).contiguous();
  const auto logits = [&](const std::vector<std::string>& masks, const Words& more) {
    TensorFile file;
    file.tensors = {{"tokens1", tokens}, {"tokens2", tokens + 1}};
    for (const std::string& name : masks) file.tensors.emplace_back(name, mask);
    Words all = words(write(file), "linear");
    all.insert(all.end(), {"--scope", "model", "--task", "retrieval"});
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult result = run_program(all);
    return result.status == 0 ? read_tensors(output_).at("logits") : torch::Tensor();
  };
  const torch::Tensor without = logits({}, {}), masked = logits({"mask1", "mask2"}, {});
  EXPECT_GT((masked - without).abs().max().item<float>(), 1e-4);
  EXPECT_TRUE(torch::equal(logits({"mask1", "mask2"}, {"--set", "input.mask=none"}),
                           logits({}, {"--set", "input.mask=none"})));
  for (const char* alone : {"mask1", "mask2"}) EXPECT_FALSE(logits({alone}, {}).defined()) << alone;
}

TEST_F(AttendCommandTest, RefusesWithOneLineThatHelps) {
  const fs::path nowhere = scratch_.path() / "nowhere.safetensors";
  expect_refusal(words(nowhere, attention_), 1,
                 "cannot read " + nowhere.string() + ": No such file or directory");

  TensorFile in = given_;
  for (auto& [name, tensor] : in.tensors) {
    if (name == "k") tensor = tensor.slice(2, 0, 31);
  }
  const fs::path input = write(in);
  expect_refusal(words(input, attention_), 1,
                 input.string() + ": k should be like q, [3,2,32,8] Double, not [3,2,31,8] Double");

  in = given_;
  for (auto& [name, tensor] : in.tensors) {
    if (name == "param.conv.weight") name = "param.conv.weigth";
  }
  write(in);
  expect_refusal(words(input, attention_), 2,
                 "unknown tensor 'param.conv.weigth' in the input; did you mean "
                 "'param.conv.weight'?");

  in = given_;
  std::erase_if(in.tensors, [](const auto& item) { return item.first == "v"; });
  write(in);
  expect_refusal(words(input, attention_), 1, input.string() + ": there is no tensor 'v'");

  const std::string whole = read_file(fixture_);
  write_file(input, whole.substr(0, whole.size() / 2));
  expect_refusal(words(input, attention_), 1, input.string());
  expect_refusal(words(input, attention_), 1, "truncated");

  expect_refusal(words(fixture_, "nystrm"), 2,
                 "unknown attention 'nystrm'; did you mean 'nystrom'?");
  expect_refusal(words(fixture_, "nystrom[num_landmark=8]"), 2,
                 "unknown key 'num_landmark' in attention nystrom; did you mean 'num_landmarks'?");
  expect_refusal({"attend", "--attention", "standard"}, 2, "--input is required");
  auto unread = words(fixture_, attention_);
  unread.insert(unread.end(), {"--task", "listops", "--set", "model.width=16"});
  expect_refusal(unread, 2,
                 "--set model.width: --scope attention reads model.padded_rows, model.causal, "
                 "input.mask, kernels alone; give --scope model");
  for (const std::string set : {"optimizer.lr=1", "input.cut=4", "evaluation.drop_last=true"}) {
    const fs::path tokens = scratch_.path() / "tokens.safetensors";
    TensorFile file;
    file.tensors = {{"tokens", torch::ones({1, 8}, torch::kLong)}};
    write_tensors(tokens, file);
    auto of_model = words(tokens, "linear");
    of_model.insert(of_model.end(), {"--scope", "model", "--task", "listops", "--set", set});
    expect_refusal(of_model, 2,
                   "--set " + set.substr(0, set.find('=')) + ": --scope model reads model.* and");
  }
  EXPECT_FALSE(fs::exists(output_)) << "nothing half-written";

  output_ = input;
  expect_refusal(words(input, attention_), 2, "is --input; name another file");
  EXPECT_EQ(read_file(input).size(), whole.size() / 2);

  output_ = scratch_.path() / "missing" / "out.safetensors";
  expect_refusal(words(fixture_, attention_), 1, "cannot write " + output_.string());
}

}  // namespace
}  // namespace lra
