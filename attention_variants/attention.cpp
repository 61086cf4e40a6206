#include "attention_variants/attention.h"

#include <fmt/ranges.h>

#include <string>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/wrong_result.h"

namespace lra {

std::string sizes_text(const torch::Tensor& t) {
  return fmt::format("[{}]", fmt::join(t.sizes(), ","));
}

std::string shape_text(const torch::Tensor& t) {
  if (!t.defined()) return "undefined";
  return sizes_text(t) + " " + c10::toString(t.scalar_type());
}

void check_mask(const torch::Tensor& mask, int64_t batch, int64_t length, torch::Device device) {
  if (!mask.defined() || mask.dim() != 2 || mask.size(0) != batch || mask.size(1) != length ||
      mask.scalar_type() != torch::kBool) {
    throw Error(fmt::format("mask should be [{},{}] Bool (true = a token), not {}", batch, length,
                            shape_text(mask)));
  }
  if (mask.device() != device)
    throw Error(fmt::format("mask should be on {}, not {}", device.str(), mask.device().str()));
}

void check_layer_input(const torch::Tensor& x, const torch::Tensor& mask, int64_t width) {
  if (!x.defined() || x.dim() != 3 || x.size(1) < 1 || x.size(2) != width || !is_computed(x)) {
    throw Error(
        fmt::format("x should be [B,N,{}] of float32, float64 or bfloat16 with N of at "
                    "least 1, not {}",
                    width, shape_text(x)));
  }
  check_mask(mask, x.size(0), x.size(1), x.device());
}

torch::Tensor Attention::attend(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                const torch::Tensor&) {
  throw Unsupported(
      "this attention has no form that takes q, k and v: call forward(x, mask) (lra profile: "
      "--scope module; lra attend: --scope model)");
}

Unprojected Attention::attend_unprojected(NormedInput&, const torch::Tensor&) { return {}; }

GatedRows Attention::forward_gated(const torch::Tensor& x, const torch::Tensor& mask) {
  return {.y = forward(x, mask), .gate = {}};
}

int64_t Attention::analytic_bytes(int64_t, int64_t, int64_t, bool) const { return -1; }

int64_t Attention::flops(int64_t, int64_t) const { return -1; }

bool Attention::reads_padding() const { return false; }

bool Attention::capturable() const { return false; }

bool Attention::sees_all(int64_t) const { return false; }

bool Attention::length_invariant() const { return false; }

std::vector<std::string> Attention::slow_parameters() const { return {}; }

Projections Attention::projections() const { return Projections::query_key_value; }

std::vector<std::string> Attention::tables() const { return {}; }

void Attention::set_table(const std::string& name, const torch::Tensor&) {
  throw unknown_name("table", name, tables(), "this attention");
}

void check_attention_result(const torch::Tensor& y, const torch::Tensor& x,
                            at::IntArrayRef expected) {
  if (y.defined() && y.sizes() == expected) {
    // Under autocast float32 and bfloat16 stand for each other.
    const bool of_type = y.scalar_type() == x.scalar_type() ||
                         (ops::under_autocast(x.device().type()) && is_computed(y) &&
                          y.scalar_type() != torch::kDouble && x.scalar_type() != torch::kDouble);
    if (of_type && y.device() == x.device()) return;
    throw WrongResult(
        fmt::format("this attention should give the type of x, {} on {}, not {} on {}",
                    shape_text(x), x.device().str(), shape_text(y), y.device().str()));
  }
  throw WrongResult(fmt::format("this attention should give [{}] of x [{}], not {}",
                                fmt::join(expected, ","), fmt::join(x.sizes(), ","),
                                shape_text(y)));
}

bool is_computed(const torch::Tensor& x) {
  const torch::ScalarType type = x.scalar_type();
  return type == torch::kFloat || type == torch::kDouble || type == torch::kBFloat16;
}

void check_attend_inputs(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& mask) {
  if (!q.defined() || q.dim() != 4 || q.size(2) < 1 || !is_computed(q)) {
    throw Error("q should be [B,H,N,d] of float32, float64 or bfloat16 with N of at least 1, not " +
                shape_text(q));
  }
  const auto same = [&q](const torch::Tensor& t, const char* name) {
    if (!t.defined() || t.sizes() != q.sizes() || t.scalar_type() != q.scalar_type()) {
      throw Error(
          fmt::format("{} should be like q, {}, not {}", name, shape_text(q), shape_text(t)));
    }
    if (t.device() != q.device()) {
      throw Error(fmt::format("{} should be on {} as q is, not on {}", name, q.device().str(),
                              t.device().str()));
    }
  };
  same(k, "k");
  same(v, "v");
  check_mask(mask, q.size(0), q.size(2), q.device());
}

}  // namespace lra
