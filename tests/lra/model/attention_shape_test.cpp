// An attention that gives another shape than it should is refused: kernels read rows as they are
// told to.
#include <gtest/gtest.h>

#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"
#include "tests/lra/model/toy_model.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

torch::Tensor without_last(const torch::Tensor& x, int64_t dim) {
  return x.narrow(dim, 0, x.size(dim) - 1);
}

struct ShorteningOptions {
  std::string of = "positions";
  template <class Fields>
  void fields(Fields& f) {
    f("of", of, one_of({"positions", "width", "heads"}));
  }
};

class ShorteningAttention : public ProjectedAttention {
 public:
  ShorteningAttention(const AttentionContext& context, const ShorteningOptions& options)
      : ProjectedAttention(context), options_(options) {}
  torch::Tensor attend(const torch::Tensor&, const torch::Tensor&, const torch::Tensor& v,
                       const torch::Tensor&) override {
    return without_last(v, options_.of == "heads" ? 1 : options_.of == "positions" ? 2 : 3);
  }
  json options() const override { return write_fields(options_); }

 private:
  const ShorteningOptions options_;
};

class ShorteningLayer : public Attention {
 public:
  ShorteningLayer(const AttentionContext&, const ShorteningOptions& options) : options_(options) {}
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor&) override {
    return without_last(x, options_.of == "positions" ? 1 : 2);
  }
  json options() const override { return write_fields(options_); }

 private:
  const ShorteningOptions options_;
};

[[maybe_unused]] const bool shortening_registered =
    register_attention<ShorteningAttention, ShorteningOptions>(
        {.name = "shortening", .title = "Shortening", .paper = "test", .complexity = "O(1)"}) &&
    register_attention<ShorteningLayer, ShorteningOptions>({.name = "shortening_layer",
                                                            .title = "Shortening layer",
                                                            .paper = "test",
                                                            .complexity = "O(1)"});

std::string refusal(const std::string& attention, ops::Kernels kernels) {
  const ToyBatch batch;
  Config config = toy_config(attention);
  config.settings.kernels = kernels;
  Model model(toy_task(), config);
  return error_text([&] { model.forward(batch.tokens, batch.mask); });
}

TEST(AttentionShape, IsCheckedByTheModel) {
  for (const ops::Kernels kernels : all_values<ops::Kernels>()) {
    const auto expect = [&](const char* attention, const char* what) {
      EXPECT_EQ(refusal(attention, kernels), what)
          << attention << ", kernels=" << to_string(kernels);
    };
    expect("shortening",
           "this attention should give [3,2,16,4] of x [3,16,8], not [3,2,15,4] Float");
    expect("shortening[of=width]",
           "this attention should give [3,2,16,4] of x [3,16,8], not [3,2,16,3] Float");
    expect("shortening[of=heads]",
           "this attention should give [3,2,16,4] of x [3,16,8], not [3,1,16,4] Float");
    expect("shortening_layer",
           "this attention should give [3,16,8] of x [3,16,8], not [3,15,8] Float");
    expect("shortening_layer[of=width]",
           "this attention should give [3,16,8] of x [3,16,8], not [3,16,7] Float");
  }
}

}  // namespace
}  // namespace lra
