// Attentions from TorchScript files: names, signatures, what is registered, and the messages.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "attention_variants/contract/contract.h"
#include "attention_variants/projected_attention.h"
#include "tests/attention_variants/testing.h"
#include "tests/support/scratch.h"  // error_text alone: this program has no lra/

namespace lra {
namespace {

const std::string kFixtures = LRA_SOURCE_DIR "/tests/fixtures/torchscript-";

std::string named(const std::string& name) { return "torchscript:" + kFixtures + name + ".pt"; }

std::string script_message(const std::string& spec) {
  return error_text([&] { make(spec); });
}

TEST(TorchScript, IsNamedByItsFile) {
  const AttentionSpec spec = parse_attention(" torchscript:runs/my-2.pt ");
  EXPECT_EQ(spec.name, "torchscript");
  EXPECT_EQ(spec.options, json::parse(R"({"file": "runs/my-2.pt"})"));
  EXPECT_EQ(spec.text(), "torchscript:runs/my-2.pt");
  EXPECT_EQ(parse_attention("torchscript[file=runs/my-2.pt]").text(), spec.text());
  EXPECT_EQ(parse_attention("torchscript:32").text(), "torchscript:32") << "a name, not a number";
  const auto list = parse_attentions("standard,torchscript:a.pt,nystrom[num_landmarks=8]");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[1].text(), "torchscript:a.pt");
  const AttentionSpec both = parse_attention("torchscript[file=a.pt,sha256=ab]");
  EXPECT_EQ(parse_attention(both.text()).options, both.options);
}

TEST(TorchScript, MalformedNames) {
  const auto message = [](const std::string& text) {
    return error_text([&] { parse_attention(text); });
  };
  EXPECT_EQ(message("torchscript:"),
            "attention 'torchscript:': the name or the file is missing; write torchscript:FILE");
  EXPECT_EQ(message(":a.pt"),
            "attention ':a.pt': the name or the file is missing; write name:FILE");
  EXPECT_EQ(message("torchscript:a[1].pt"),
            "attention 'torchscript:a[1].pt': a file's path may hold no comma and no bracket; "
            "write torchscript:FILE");
  EXPECT_EQ(script_message("nystrom:a.pt"),
            "unknown key 'file' in attention nystrom; valid: num_landmarks, pinv_iterations, "
            "conv_kernel_size, pinv, landmarks, init, padding");
}

// Nothing that runs every attention by its defaults meets one without a file.
TEST(TorchScript, IsNotAmongThoseThatRunByNameAlone) {
  for (const AttentionEntry* entry : attention_entries())
    EXPECT_NE(entry->info.name, "torchscript");
  EXPECT_EQ(attention_entry("torchscript").info.name, "torchscript");
  EXPECT_EQ(script_message("torchscript"),
            "attention torchscript needs a file saved by torch.jit.script(module).save(FILE); "
            "write torchscript:FILE");
}

TEST(TorchScript, RightFilesKeepTheContract) {
  for (const char* name : {"softmax", "linear", "mixer"}) {
    for (const contract::Verdict& verdict :
         contract::check_contract(contract::contract_subject(parse_attention(named(name)))))
      EXPECT_TRUE(verdict.holds) << name << ", " << verdict.clause << ": " << verdict.measured;
  }
}

TEST(TorchScript, ItsTensorsAreRegisteredUnderTheirNames) {
  const auto attention = make(named("linear"));
  std::vector<std::string> own, buffers;
  for (const auto& item : attention->named_parameters()) {
    if (!is_projection(item.key())) own.push_back(item.key());
  }
  for (const auto& item : attention->named_buffers()) buffers.push_back(item.key());
  EXPECT_EQ(own, std::vector<std::string>{"module.feature.slope"});
  // What was saved with requires_grad=False is kept, and not trained.
  EXPECT_EQ(buffers, (std::vector<std::string>{"module.scale", "module.floor"}));
  EXPECT_EQ(attention->named_buffers()["module.floor"].scalar_type(), torch::kDouble);

  // They are the script's own: a change is felt, after a change of type too.
  const Inputs in = make_inputs({9, 5}, 9);
  const torch::Tensor before = attend(*attention, in);
  {
    const torch::NoGradGuard no_grad;
    attention->named_parameters()["module.feature.slope"].fill_(0.5);
  }
  EXPECT_GT(difference(attend(*attention, in), before), 1e-3);
}

TEST(TorchScript, EveryLayerHasItsOwnCopy) {
  const auto one = make(named("linear")), other = make(named("linear"));
  const Inputs in = make_inputs({9, 5}, 9);
  const torch::Tensor before = attend(*other, in);
  const torch::NoGradGuard no_grad;
  one->named_parameters()["module.feature.slope"].fill_(0.5);
  EXPECT_TRUE(torch::equal(attend(*other, in), before));
}

TEST(TorchScript, TrainingModeReachesIt) {
  const auto attention = make(named("mixer"));  // has dropout
  const torch::Tensor x = torch::randn({2, 9, 8}, torch::kDouble);
  const torch::Tensor mask = length_mask({9, 5}, 9);
  attention->train();
  EXPECT_FALSE(torch::equal(attention->forward(x, mask), attention->forward(x, mask)));
  attention->eval();
  EXPECT_TRUE(torch::equal(attention->forward(x, mask), attention->forward(x, mask)));
}

// TorchScript optimises a graph after its first calls, which changes the last bits.
TEST(TorchScript, TheFifthCallGivesTheBitsOfTheFirst) {
  const auto attention = make(named("linear"), torch::kFloat);
  Inputs in = make_inputs({41, 30}, 41, torch::kFloat);
  in.q.requires_grad_();
  torch::Tensor first, first_gradient;
  for (int i = 0; i < 5; ++i) {
    in.q.mutable_grad() = torch::Tensor();
    const torch::Tensor out = attend(*attention, in);
    out.square().sum().backward();
    if (i == 0) {
      first = out.detach();
      first_gradient = in.q.grad();
    }
    EXPECT_TRUE(torch::equal(out, first)) << i;
    EXPECT_TRUE(torch::equal(in.q.grad(), first_gradient)) << i;
  }
}

TEST(TorchScript, TheFileAndItsHashAreOptionsInEffect) {
  const std::string file = kFixtures + "linear.pt";
  const json expected = make(named("linear"))->options();
  const std::string hash = expected["sha256"];
  EXPECT_EQ(expected["file"], file);
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos) << hash;
  EXPECT_NE(make(named("softmax"))->options()["sha256"], hash);
  EXPECT_EQ(attention_entry("torchscript").effective_options({{"file", file}}), expected);
  // What a record says can be asked for, and a changed file is not taken for it.
  EXPECT_EQ(attention_entry("torchscript").effective_options(expected), expected);
  const std::string other(64, '0');
  EXPECT_EQ(script_message("torchscript[file=" + file + ",sha256=\"" + other + "\"]"),
            "torchscript:" + file + ": the file has SHA-256 " + hash + ", not the " + other +
                " that was asked for; it has changed, put the old one back or start anew");
}

// A file in a folder of its own that is no TorchScript file; removed at the end.
class NoScript {
 public:
  explicit NoScript(const std::string& bytes) {
    folder_ = (std::filesystem::path(testing::TempDir()) / "lra-script-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    std::ofstream(path(), std::ios::binary) << bytes;
  }
  ~NoScript() {
    std::filesystem::remove(path());
    std::filesystem::remove(folder_);
  }
  NoScript(const NoScript&) = delete;
  NoScript& operator=(const NoScript&) = delete;
  const std::string& folder() const { return folder_; }
  std::string path() const { return folder_ + "/my.pt"; }

 private:
  std::string folder_;
};

TEST(TorchScript, SaysWhatIsWrongWithAFile) {
  std::ifstream in(kFixtures + "linear.pt", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  ASSERT_GT(whole.size(), 1000u);
  for (const std::string& bytes :
       {std::string("def forward(self): pass\n"), std::string(), whole.substr(0, 2000)}) {
    const NoScript file(bytes);
    const std::string name = "torchscript:" + file.path(), message = script_message(name);
    EXPECT_TRUE(message.starts_with(name + ": the file is no TorchScript file (")) << message;
    EXPECT_TRUE(message.ends_with("); save one with torch.jit.script(module).save(FILE)"))
        << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(script_message("torchscript:" + file.folder()),
              "torchscript:" + file.folder() + ": there is no such file");
    EXPECT_EQ(script_message(name + ".pt"), name + ".pt: there is no such file");
  }
  EXPECT_EQ(script_message(named("signature")),
            named("signature") +
                ": its forward should take the tensors (q, k, v, mask) or (x, mask) and return one "
                "tensor; it has (q: Tensor, k: Tensor, v: Tensor) -> Tensor");
}

TEST(TorchScript, SaysWhatIsWrongWithAResult) {
  const Inputs in = make_inputs({9, 5}, 9);
  EXPECT_EQ(error_text([&] { attend(*make(named("wrong_shape")), in); }),
            named("wrong_shape") +
                ": forward should return [2,2,9,4] Double as it was given, not [2,2,9,3] Double");
  EXPECT_EQ(error_text([&] { attend(*make(named("wrong_type")), in); }),
            named("wrong_type") +
                ": forward should return [2,2,9,4] Double as it was given, not [2,2,9,4] Float");
}

// What TorchScript says of a failure is a traceback of many lines: its reason is one.
TEST(TorchScript, AFailureInsideIsOneLine) {
  const auto attention = make(named("linear"));
  {
    const torch::NoGradGuard no_grad;
    attention->named_parameters()["module.feature.slope"].set_data(
        torch::ones({3}, torch::kDouble));
  }
  const std::string message = error_text([&] { attend(*attention, make_inputs({9, 5}, 9)); });
  EXPECT_TRUE(message.starts_with(named("linear") + ": ")) << message;
  EXPECT_NE(message.find("size of tensor a (4) must match"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

}  // namespace
}  // namespace lra
