// `lra attend`: what comes out, and what is said of input that cannot be used.
#include "harness/attend/attend_file.h"

#include <gtest/gtest.h>

#include "harness/attend/attend_model.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

TensorFile example() {
  TensorFile in;
  torch::manual_seed(1);
  for (const char* name : {"q", "k", "v", "grad_output"})
    in.tensors.emplace_back(name, torch::randn({2, 2, 20, 4}));
  in.tensors.emplace_back("mask", torch::arange(20).lt(15).unsqueeze(0).repeat({2, 1}));
  return in;
}

void replace(TensorFile& in, const std::string& name, const torch::Tensor& value) {
  for (auto& [known, tensor] : in.tensors) {
    if (known == name) tensor = value;
  }
}

std::string message_of(const TensorFile& in) {
  return error_text(
      [&] { attend_file(parse_attention("nystrom[num_landmarks=4,conv_kernel_size=3]"), in); });
}

TEST(Attend, ReturnsOutputAndEveryGradient) {
  const TensorFile out =
      attend_file(parse_attention("nystrom[num_landmarks=4,conv_kernel_size=3]"), example());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : out.tensors) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"output", "grad.q", "grad.k", "grad.v",
                                             "grad.param.conv.weight"}));
  EXPECT_EQ(out.at("grad.param.conv.weight").sizes(), (std::vector<int64_t>{2, 1, 3, 1}));
  EXPECT_EQ(out.metadata.at("attention"), "nystrom[conv_kernel_size=3,num_landmarks=4]");
}

TEST(Attend, WithoutGradOutputThereIsOutputAlone) {
  TensorFile in = example();
  std::erase_if(in.tensors, [](const auto& item) { return item.first == "grad_output"; });
  EXPECT_EQ(attend_file(parse_attention("standard"), in).tensors.size(), 1u);
}

TEST(Attend, WithoutMaskAllAreTokens) {
  TensorFile in = example(), full = in;
  std::erase_if(in.tensors, [](const auto& item) { return item.first == "mask"; });
  replace(full, "mask", torch::ones({2, 20}, torch::kBool));
  const AttentionSpec spec = parse_attention("standard");
  EXPECT_TRUE(
      torch::equal(attend_file(spec, in).at("output"), attend_file(spec, full).at("output")));
}

TEST(Attend, CausalFormsReadNothingAhead) {
  const TensorFile in = example();
  const AttendPlace causal{.causal = true};
  const torch::Tensor out = attend_file(parse_attention("standard"), in, 0, causal).at("output"),
                      first = out.select(2, 0), value = in.at("v").select(2, 0);
  EXPECT_LT((first - value).abs().max().item<double>(), 1e-6);
  EXPECT_THROW(attend_file(parse_attention("nystrom"), in, 0, causal), UsageError);
}

TEST(Attend, GivenParametersAreUsed) {
  TensorFile in = example();
  in.tensors.emplace_back("param.conv.weight", torch::zeros({2, 1, 3, 1}));
  const torch::Tensor with_zero =
      attend_file(parse_attention("nystrom[num_landmarks=4,conv_kernel_size=3]"), in).at("output");
  in.tensors.pop_back();
  const torch::Tensor without =
      attend_file(parse_attention("nystrom[num_landmarks=4,conv_kernel_size=0]"), in).at("output");
  EXPECT_TRUE(torch::allclose(with_zero, without));
}

TEST(Attend, SaysWhatIsWrongWithTheInput) {
  TensorFile in = example();
  in.tensors.emplace_back("param.conv.weigth", torch::zeros({2, 1, 3, 1}));
  EXPECT_EQ(
      message_of(in),
      "unknown tensor 'param.conv.weigth' in the input; did you mean 'param.conv.weight'? Valid: "
      "param.conv.weight");
  in.tensors.back() = {"param.conv.weight", torch::zeros({2, 1, 5, 1})};
  EXPECT_EQ(message_of(in), "tensor param.conv.weight should be [2,1,3,1], not [2,1,5,1]");
  in.tensors.back() = {"masks", torch::zeros({2})};
  EXPECT_EQ(message_of(in),
            "unknown tensor 'masks' in the input; did you mean 'mask'? Valid: q, k, v, mask, "
            "grad_output, "
            "param.<name>");
  in = example();
  replace(in, "k", torch::zeros({2, 2, 19, 4}));
  EXPECT_EQ(message_of(in), "k should be like q, [2,2,20,4] Float, not [2,2,19,4] Float");
  in = example();
  replace(in, "mask", torch::zeros({2, 20}));
  EXPECT_EQ(message_of(in), "mask should be [2,20] Bool (true = a token), not [2,20] Float");
  const torch::Tensor q = torch::zeros({2, 2, 20, 4}), mask = torch::ones({2, 20}, torch::kBool);
  EXPECT_EQ(error_text([&] { check_attend_inputs(q, q, q, mask.to(torch::kMeta)); }),
            "mask should be on cpu, not meta");
  EXPECT_EQ(error_text([&] { check_attend_inputs(q, q, q.to(torch::kMeta), mask); }),
            "v should be on cpu as q is, not on meta");
  in = example();
  replace(in, "grad_output", torch::zeros({2, 2, 20, 4}, torch::kDouble));
  EXPECT_EQ(message_of(in),
            "tensor grad_output should be [2,2,20,4] Float like q, not [2,2,20,4] Double");
  in = example();
  replace(in, "q", torch::zeros({20, 4}));
  EXPECT_EQ(message_of(in), "tensor q should be [B,H,N,d], not [20,4]");
}

TEST(AttendModel, SaysWhatIsWrongWithGradOutput) {
  const Config config = make_config(load_protocol("lra-strict"), "listops",
                                    parse_attention("standard"), {"input.length=8"}, 0, "float32");
  const auto message = [&](const torch::Tensor& grad_output) {
    TensorFile in;
    in.tensors = {{"tokens", torch::ones({1, 8}, torch::kLong)}, {"grad_output", grad_output}};
    return error_text([&] { attend_model(config, in); });
  };
  const std::string expected = "tensor grad_output should be [1,10] Float like the logits, not ";
  EXPECT_EQ(message(torch::ones({1, 10}, torch::kLong)), expected + "[1,10] Long");
  EXPECT_EQ(message(torch::ones({1, 9})), expected + "[1,9] Float");
}

}  // namespace
}  // namespace lra
