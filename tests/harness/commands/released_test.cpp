// Attentions against the released code of LRA, the Nyströmformer and Skyformer: fixtures made by
// running it (tests/fixtures/exact/README.md), in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "attention_variants/base/files.h"
#include "harness/commands/attend_file.h"
#include "harness/commands/attend_model.h"

namespace lra {
namespace {

const std::string kReleasedFixtures = LRA_SOURCE_DIR "/tests/fixtures/exact/";

// Which attention of ours a case is of; the place comes from its settings.
const std::map<std::string, std::string> kReleasedSpecs = {
    {"g_bigbird_a", "bigbird[block=8,random_range=1024,append=block,seed=0]"},
    {"g_linear_negative", "linear[epsilon=1e-6]"},
    {"g_linformer_a", "linformer[projected_length=16,sharing=key_value,init=xavier]"},
    {"g_local_a", "local_tay2020[block=16]"},
    {"g_longformer_even", "longformer[window=16,window_form=counted]"},
    {"g_performer_relu_identity", "performer_tay2020"},
    {"g_performer_softmax_a", "performer[num_features=2,epsilon=1e-6,guard=1e-6]"},
    {"g_reformer_a", "reformer_tay2020"},
    {"g_sinkhorn_a", "sinkhorn_tay2020[block=16]"},
    {"g_sparse_open_a", "sparse[block=50,summary=10,causal=true,cls=open]"},
    {"g_sparse_token_a", "sparse[block=50,summary=10,causal=true]"},
    {"g_standard_padded", "standard"},
    {"g_synthesizer_a", "synthesizer_tay2020"},
    {"n_nystrom_prefix",
     "nystrom[num_landmarks=32,pinv_iterations=6,conv_kernel_size=35,init=global,padding=zeroed]"},
    {"n_performer", "performer[num_features=24,prescale=true,key_max=batch]"},
    {"n_reformer_a", "reformer[num_hashes=2,chunk_length=64,num_buckets=4]"},
    {"s_bigbird_a", "bigbird[block=16,seed=42,random_range=176]"},
    {"s_linformer", "linformer[projected_length=16,sharing=heads_only,trained=false]"},
    {"s_skyformer_a", "skyformer[num_features=16,init=global,positions=prefix]"}};

struct ReleasedCase {
  TensorFile in, expected;
  AttendPlace place;
};

ReleasedCase released_case(const std::string& name) {
  const json about = json::parse(read_file(kReleasedFixtures + name + ".json"));
  ReleasedCase result{.in = read_tensors(kReleasedFixtures + name + ".in.safetensors"),
                      .expected = read_tensors(kReleasedFixtures + name + ".expect.safetensors")};
  const json& settings = about.at("settings");
  if (settings.value("model.padded_rows", "zero") == "uniform")
    result.place.padded_rows = PaddedRows::uniform;
  result.place.masked = settings.value("input.mask", "length") != "none";
  return result;
}

double largest(const torch::Tensor& x) { return x.abs().max().item<double>(); }

class Released : public testing::TestWithParam<std::string> {};

std::vector<std::string> released_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kReleasedFixtures)) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() == ".json" && name.rfind("m_", 0) != 0) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Attention, Released, testing::ValuesIn(released_names()),
                         [](const auto& given) { return given.param; });

// `grad_output` as it is given, and zeroed at padded rows where the fixture has that too.
TEST_P(Released, OutputAndGradientsAreThoseOfTheReleasedCode) {
  ReleasedCase given = released_case(GetParam());
  const AttentionSpec spec = parse_attention(kReleasedSpecs.at(GetParam()));
  const auto check = [&](const std::string& gradient) {
    const TensorFile out = attend_file(spec, given.in, 0, given.place);
    size_t compared = 0;
    for (const auto& [name, theirs] : given.expected.tensors) {
      if (name != "output" && name.rfind(gradient, 0) != 0) continue;
      const std::string ours = name == "output" ? name : "grad." + name.substr(gradient.size());
      const torch::Tensor found = out.at(ours);
      ASSERT_EQ(found.sizes(), theirs.sizes()) << name;
      const double scale = largest(theirs);
      EXPECT_LE(largest(found - theirs), 1e-8 * (scale > 0 ? scale : 1)) << name;
      ++compared;
    }
    EXPECT_GE(compared, gradient == "grad." ? 4u : 3u);
  };
  check("grad.");
  if (given.expected.find("grad_real.q") == nullptr) return;
  for (auto& [name, tensor] : given.in.tensors) {
    if (name == "grad_output")
      tensor = tensor.masked_fill(given.in.at("mask").logical_not().unsqueeze(1).unsqueeze(-1), 0);
  }
  check("grad_real.");
}

// The blocks that the fixtures were given are those that ours draws from the same seed.
TEST(ReleasedDraw, BigbirdsRandomBlocksAreThoseOfTheReleases) {
  for (const std::string name : {"g_bigbird_a", "s_bigbird_a"}) {
    ReleasedCase given = released_case(name);
    const size_t before = given.in.tensors.size();
    std::erase_if(given.in.tensors, [](const auto& item) {
      return item.first == "param.random_blocks" || item.first == "random_blocks";
    });
    ASSERT_EQ(given.in.tensors.size(), before - 1) << name;
    const TensorFile out =
        attend_file(parse_attention(kReleasedSpecs.at(name)), given.in, 0, given.place);
    const torch::Tensor& theirs = given.expected.at("output");
    EXPECT_LE(largest(out.at("output") - theirs), 1e-8 * largest(theirs)) << name;
  }
}

// ---- Whole models -------------------------------------------------------------------------------

// The task and attention that a case stands for under tay2020, and options of its own.
const std::map<std::string, std::pair<std::string, std::string>> kReleasedModels = {
    {"m_local_cls", {"listops", "local[block=16]"}},
    {"m_reformer_cls", {"listops", "reformer"}},
    {"m_sinkhorn_mean", {"listops", "sinkhorn[block=16]"}},
    {"m_sparse_pair", {"retrieval", "sparse[block=16,summary=4]"}},
    {"m_standard_cls", {"listops", "standard"}},
    {"m_standard_mean", {"pathfinder", "standard"}}};

// A released parameter's name and value as ours; "" for what we leave out. Kernels are [in,out].
std::string our_name(std::string name) {
  const auto drop = [&](const std::string& prefix) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  };
  drop("encoder/");
  if (name.find("SinkhornAttention") != std::string::npos &&
      name.find("DenseGeneral") != std::string::npos)
    return "";  // the sorting net
  const std::map<std::string, std::string> whole = {
      {"Embed_0/embedding", "tokens.weight"},
      {"posembed_input/pos_embedding", "positions.weight"},
      {"encoder_norm/scale", "final_norm.weight"},
      {"encoder_norm/bias", "final_norm.bias"},
      {"cls", "cls"}};
  if (const auto it = whole.find(name); it != whole.end()) return it->second;
  const std::string kind = name.ends_with("/bias") ? ".bias" : ".weight";
  const std::string block = "encoderblock_";
  if (!name.starts_with(block)) return name;  // of the head: see classifier_name()
  const std::string layer = "layer" + name.substr(block.size(), 1) + "_";
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("/LayerNorm_0/")) return layer + "attention_norm" + kind;
  if (has("/LayerNorm_2/")) return layer + "feed_forward_norm" + kind;
  if (has("/Dense_0/")) return layer + "feed_forward.0" + kind;
  if (has("/Dense_1/")) return layer + "feed_forward.3" + kind;
  const bool shared = has("ReformerAttention");
  if (has("/query/")) return layer + (shared ? "attention.query_key" : "attention.query") + kind;
  if (has("/key/")) return layer + "attention.key" + kind;
  if (has("/value/")) return layer + "attention.value" + kind;
  return layer + "attention.output" + kind;
}

// Layers of the head in their order, with a ReLU between.
std::string classifier_name(const std::string& name, bool mlp, bool mlp2) {
  const std::string kind = name.ends_with("/bias") ? ".bias" : ".weight";
  const int number = name.starts_with("mlp2")  ? 2
                     : name.starts_with("mlp") ? 0
                                               : (mlp ? 2 : 0) + (mlp2 ? 2 : 0);
  return "classifier." + std::to_string(number) + kind;
}

torch::Tensor our_value(const std::string& name, const torch::Tensor& theirs) {
  if (name.ends_with("/out/kernel")) return theirs.flatten(0, 1).t().contiguous();  // [H,d,out]
  if (name.ends_with("/kernel")) return theirs.flatten(1).t().contiguous();         // [in,..]
  if (name.ends_with("cls") || name.ends_with("pos_embedding")) return theirs.squeeze();
  return theirs;
}

class ReleasedModel : public testing::TestWithParam<std::string> {};

std::vector<std::string> released_models() {
  std::vector<std::string> names;
  for (const auto& [name, meant] : kReleasedModels) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Tay2020, ReleasedModel, testing::ValuesIn(released_models()),
                         [](const auto& given) { return given.param; });

TEST_P(ReleasedModel, LogitsAndGradientsAreThoseOfTheReleasedCode) {
  const json about = json::parse(read_file(kReleasedFixtures + GetParam() + ".json"));
  const TensorFile theirs = read_tensors(kReleasedFixtures + GetParam() + ".in.safetensors"),
                   expected = read_tensors(kReleasedFixtures + GetParam() + ".expect.safetensors");
  const bool mlp = theirs.find("param.mlp/kernel") != nullptr,
             mlp2 = theirs.find("param.mlp2/kernel") != nullptr;
  const auto named = [&](const std::string& name) {
    const std::string ours = our_name(name);
    return ours == name && ours != "cls" ? classifier_name(ours, mlp, mlp2) : ours;
  };
  TensorFile in;
  for (const auto& [name, tensor] : theirs.tensors) {
    if (name == "positions") {
      in.tensors.emplace_back("param.fixed_positions", tensor);
    } else if (!name.starts_with("param.")) {
      in.tensors.emplace_back(name, tensor);
    } else if (const std::string ours = named(name.substr(6)); !ours.empty()) {
      in.tensors.emplace_back("param." + ours, our_value(name, tensor));
    }
  }
  const json& sizes = about.at("sizes");
  const int64_t heads = sizes.at("heads"), inner = sizes.at("inner");
  std::vector<std::string> sets;
  const auto set = [&](const std::string& key, int64_t value) {
    sets.push_back(key + "=" + std::to_string(value));
  };
  set("input.length", sizes.at("length"));
  set("model.width", sizes.at("width"));
  set("model.heads", heads);
  set("model.head_dim", inner / heads);
  set("model.layers", sizes.at("layers"));
  set("model.feed_forward", sizes.at("feed_forward"));
  set("model.classifier", sizes.at("feed_forward"));
  if (theirs.find("param.posembed_input/pos_embedding") != nullptr)
    sets.emplace_back("model.positions=learned");
  const auto& [task, attention] = kReleasedModels.at(GetParam());
  const Config config =
      make_config(load_protocol("tay2020"), task, parse_attention(attention), sets, 0, "float32");
  const TensorFile out = attend_model(config, in);
  size_t compared = 0;
  for (const auto& [name, tensor] : expected.tensors) {
    const std::string key = name == "logits"                ? name
                            : named(name.substr(5)).empty() ? ""
                                                            : "grad.param." + named(name.substr(5));
    if (key.empty()) continue;
    const torch::Tensor ours = out.at(key), wanted = our_value(name, tensor);
    ASSERT_EQ(ours.sizes(), wanted.sizes()) << name;
    EXPECT_LE(largest(ours - wanted), 1e-8 * largest(wanted)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, out.tensors.size()) << "every parameter's gradient is compared";
}

}  // namespace
}  // namespace lra
