// Attentions and whole models against the released code of LRA, the Nyströmformer and Skyformer:
// fixtures made by running it (tests/fixtures/exact/README.md), in float64. LRA_TEST_RELEASED names
// a folder of more cases (tests/parity/make_exact_fixtures.py sweep).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>

#include "attention_variants/base/files.h"
#include "harness/attend/attend_file.h"
#include "harness/attend/attend_model.h"

namespace lra {
namespace {

const std::string kReleasedFixtures = LRA_SOURCE_DIR "/tests/fixtures/exact/";

struct ReleasedCase {
  json about;
  TensorFile in, expected;
};

ReleasedCase released_case(const std::string& path) {
  return {.about = json::parse(read_file(path + ".json")),
          .in = read_tensors(path + ".in.safetensors"),
          .expected = read_tensors(path + ".expect.safetensors")};
}

// Which protocol of ours means the released code, by which attention in which task; of the
// fixture's sizes, of which a head of one layer reads no `classifier`.
Config released_config(const json& about, const std::vector<std::string>& sets = {}) {
  const json& ours = about.at("ours");
  const std::vector<std::string> sizes = ours.value("set", std::vector<std::string>());
  const AttentionSpec attention = parse_attention(ours.at("attention").get<std::string>());
  const Protocol sized =
      with_settings(load_protocol(ours.at("protocol")), ours.at("task"), attention.name, sizes);
  return make_config(sized, ours.at("task"), attention, sets, 0, "float32");
}

TensorFile attend_released(const ReleasedCase& given) {
  const Config config = released_config(given.about);
  return attend_file({.name = config.attention.name, .options = config.attention_options}, given.in,
                     0,
                     {.padded_rows = config.settings.model.padded_rows,
                      .masked = config.settings.input.mask != InputMask::none});
}

double largest(const torch::Tensor& x) { return x.abs().max().item<double>(); }

// Within 1e-8 of the largest entry of `theirs`, the case's expected tensor `name`. Of one whose
// terms cancel, which the case lists, rounding is left: within 1e-14 of the largest entry of all.
void expect_near(const torch::Tensor& ours, const torch::Tensor& theirs, const ReleasedCase& given,
                 const std::string& name) {
  ASSERT_EQ(ours.sizes(), theirs.sizes()) << name;
  double limit = 1e-8 * largest(theirs);
  if (const json cancels = given.about.value("cancels", json::array());
      std::find(cancels.begin(), cancels.end(), name) != cancels.end()) {
    for (const auto& [each, tensor] : given.expected.tensors)
      limit = std::max(limit, 1e-14 * largest(tensor));
  }
  EXPECT_LE(largest(ours - theirs), limit) << name;
}

// Paths without an ending: of the repository's cases, and of those that the environment names.
std::vector<std::string> released_paths(const std::string& level) {
  std::vector<std::string> folders = {kReleasedFixtures}, paths;
  if (const char* const more = std::getenv("LRA_TEST_RELEASED"); more != nullptr)
    folders.emplace_back(more);
  for (const std::string& folder : folders) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".json") continue;
      if (json::parse(read_file(entry.path())).at("level") == level)
        paths.push_back(std::filesystem::path(entry.path()).replace_extension());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

std::string released_name(const testing::TestParamInfo<std::string>& given) {
  return std::filesystem::path(given.param).filename();
}

class Released : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Attention, Released, testing::ValuesIn(released_paths("attention")),
                         released_name);

// `grad_output` as it is given, and zeroed at padded rows where the fixture has that too.
TEST_P(Released, OutputAndGradientsAreThoseOfTheReleasedCode) {
  ReleasedCase given = released_case(GetParam());
  const auto check = [&](const std::string& gradient) {
    const TensorFile out = attend_released(given);
    size_t compared = 0;
    for (const auto& [name, theirs] : given.expected.tensors) {
      if (name != "output" && name.rfind(gradient, 0) != 0) continue;
      const std::string ours = name == "output" ? name : "grad." + name.substr(gradient.size());
      expect_near(out.at(ours), theirs, given, name);
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
    ReleasedCase given = released_case(kReleasedFixtures + name);
    const size_t before = given.in.tensors.size();
    std::erase_if(given.in.tensors, [](const auto& item) {
      return item.first == "param.random_blocks" || item.first == "random_blocks";
    });
    ASSERT_EQ(given.in.tensors.size(), before - 1) << name;
    expect_near(attend_released(given).at("output"), given.expected.at("output"), given, "output");
  }
}

// ---- Whole models -------------------------------------------------------------------------------

// A released parameter as ours. Kernels of G are [in, ...], that of an output [H,d,out].
torch::Tensor our_value(const std::string& form, const torch::Tensor& theirs) {
  using Form = std::function<torch::Tensor(const torch::Tensor&)>;
  const std::map<std::string, Form> forms = {
      {"same", [](const torch::Tensor& x) { return x; }},
      {"kernel", [](const torch::Tensor& x) { return x.flatten(1).t().contiguous(); }},
      {"out", [](const torch::Tensor& x) { return x.flatten(0, 1).t().contiguous(); }},
      {"transposed", [](const torch::Tensor& x) { return x.t().contiguous(); }},
      {"squeezed", [](const torch::Tensor& x) { return x.squeeze(); }}};
  return forms.at(form)(theirs);
}

// The case's inputs as attend_model() takes them. `names`: a released parameter -> ours and its
// form; what is not in it has no effect, and is left out.
TensorFile our_inputs(const TensorFile& theirs, const json& names) {
  const std::string param = "param.", drawn = "projection.";
  TensorFile in;
  for (const auto& [name, tensor] : theirs.tensors) {
    if (name == "positions") {
      in.tensors.emplace_back("param.fixed_positions", tensor);
    } else if (name.starts_with(drawn)) {  // the features of a layer
      in.tensors.emplace_back("param.layer" + name.substr(drawn.size()) + "_attention.projection",
                              tensor);
    } else if (!name.starts_with(param)) {
      in.tensors.emplace_back(name, tensor);
    } else if (const auto it = names.find(name.substr(param.size())); it != names.end()) {
      in.tensors.emplace_back(param + it->at(0).get<std::string>(), our_value(it->at(1), tensor));
    }
  }
  return in;
}

class ReleasedModel : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Whole, ReleasedModel, testing::ValuesIn(released_paths("model")),
                         released_name);

TEST_P(ReleasedModel, LogitsAndGradientsAreThoseOfTheReleasedCode) {
  const ReleasedCase given = released_case(GetParam());
  const json& names = given.about.at("ours").at("names");
  const TensorFile in = our_inputs(given.in, names);
  const TensorFile out = attend_model(
      released_config(given.about, {"input.length=" + std::to_string(input_length(in))}), in);
  size_t compared = 0;
  for (const auto& [name, theirs] : given.expected.tensors) {
    std::string key = name, form = "same";
    if (name != "logits") {
      const auto it = names.find(name.substr(std::string("grad.").size()));
      if (it == names.end()) continue;
      key = "grad.param." + it->at(0).get<std::string>();
      form = it->at(1);
    }
    if (out.find(key) == nullptr) continue;  // of a table that is not trained
    expect_near(out.at(key), our_value(form, theirs), given, name);
    ++compared;
  }
  EXPECT_EQ(compared, out.tensors.size()) << "every parameter's gradient is compared";
}

}  // namespace
}  // namespace lra
