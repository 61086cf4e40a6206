#include "attention_variants/outside_module.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include <map>

#include "attention_variants/projected_attention.h"

namespace lra {
namespace {

// Tensors of another runtime as a module of torch::nn, which optimizers, checkpoints and to() know.
class Mirror : public torch::nn::Module {
 public:
  Mirror() = default;
  explicit Mirror(const std::vector<OutsideTensor>& tensors) {
    for (const OutsideTensor& item : tensors) add(item.path, item);
  }

  // torch::nn casts every tensor to the type; integers stay integers here, as in Python.
  using Module::to;
  void to(torch::Dtype type, bool non_blocking = false) override {
    for (const auto& child : children()) child->to(type, non_blocking);
    for (const auto& tensors : {parameters(/*recurse=*/false), buffers(/*recurse=*/false)}) {
      for (const torch::Tensor& tensor : tensors) {
        if (tensor.is_floating_point()) tensor.set_data(tensor.to(type, non_blocking));
      }
    }
  }
  void to(torch::Device device, torch::Dtype type, bool non_blocking = false) override {
    to(device, non_blocking);
    to(type, non_blocking);
  }

 private:
  void add(const std::string& path, const OutsideTensor& item) {
    const size_t dot = path.find('.');
    if (dot != std::string::npos) {
      auto& child = parts_[path.substr(0, dot)];
      if (child == nullptr)
        child = register_module(path.substr(0, dot), std::make_shared<Mirror>());
      child->add(path.substr(dot + 1), item);
    } else if (item.trained) {
      register_parameter(path, item.tensor);
    } else {
      register_buffer(path, item.tensor);
    }
  }

  std::map<std::string, std::shared_ptr<Mirror>> parts_;
};

// A module ready to be called, and what is checked of it.
class Caller {
 public:
  Caller(std::unique_ptr<OutsideModule> module, std::string where, json options)
      : module_(std::move(module)), where_(std::move(where)), options_(std::move(options)) {}

  std::shared_ptr<Mirror> mirror() const { return std::make_shared<Mirror>(module_->tensors()); }
  const json& options() const { return options_; }
  bool length_invariant() const { return module_->length_invariant(); }
  void train(bool on) { module_->train(on); }

  // The result should be like `like`.
  torch::Tensor call(const std::vector<torch::Tensor>& inputs, const torch::Tensor& like) {
    torch::Tensor out = module_->call(inputs);
    if (at::autocast::is_autocast_enabled(like.device().type()) && out.defined())
      out = out.to(like.scalar_type());  // some operations leave it in float32
    if (!out.defined() || out.sizes() != like.sizes() || out.scalar_type() != like.scalar_type() ||
        out.device() != like.device()) {
      const auto text = [&](const torch::Tensor& t) {
        const bool devices = out.defined() && out.device() != like.device();
        return shape_text(t) + (devices ? " on " + t.device().str() : "");
      };
      throw Error(fmt::format("{}: forward should return {} as it was given, not {}", where_,
                              text(like), text(out)));
    }
    return out;
  }

 private:
  std::unique_ptr<OutsideModule> module_;
  std::string where_;
  json options_;
};

// forward(q, k, v, mask)
class OutsideAttention : public ProjectedAttention {
 public:
  OutsideAttention(const AttentionContext& context, Caller caller)
      : ProjectedAttention(context), caller_(std::move(caller)) {
    register_module("module", caller_.mirror());
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    return caller_.call({q, k, v, mask}, q);
  }

  void train(bool on = true) override {
    ProjectedAttention::train(on);
    caller_.train(on);
  }

  /// Nothing is known of it.
  bool reads_padding() const override { return true; }

  bool length_invariant() const override { return caller_.length_invariant(); }

  json options() const override { return caller_.options(); }

 private:
  Caller caller_;
};

// forward(x, mask)
class OutsideLayer : public Attention {
 public:
  OutsideLayer(const AttentionContext& context, Caller caller)
      : width_(context.width), caller_(std::move(caller)) {
    register_module("module", caller_.mirror());
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) override {
    if (x.dim() != 3 || x.size(1) < 1 || x.size(2) != width_) {
      throw Error(
          fmt::format("x should be [B,N,{}] with N of at least 1, not {}", width_, shape_text(x)));
    }
    check_mask(mask, x.size(0), x.size(1), x.device());
    return caller_.call({x, mask}, x);
  }

  void train(bool on = true) override {
    Attention::train(on);
    caller_.train(on);
  }

  /// Nothing is known of it.
  bool reads_padding() const override { return true; }

  bool length_invariant() const override { return caller_.length_invariant(); }

  json options() const override { return caller_.options(); }

 private:
  const int64_t width_;
  Caller caller_;
};

}  // namespace

std::shared_ptr<Attention> make_outside_attention(const AttentionContext& context,
                                                  std::unique_ptr<OutsideModule> module,
                                                  std::string where, json options) {
  const bool heads = module->takes_heads();
  Caller caller(std::move(module), std::move(where), std::move(options));
  if (heads) return std::make_shared<OutsideAttention>(context, std::move(caller));
  return std::make_shared<OutsideLayer>(context, std::move(caller));
}

}  // namespace lra
