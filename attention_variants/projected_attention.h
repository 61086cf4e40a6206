// The four projections that nearly every variant has; see attention.h.
#pragma once

#include <string>

#include "attention_variants/attention.h"
#include "attention_variants/torch.h"

namespace lra {

/// Owns the projections query, key, value [D -> H*d] and output [H*d -> D]; a variant overrides
/// attend() alone, or mix_heads() where it reads more than q, k and v.
class ProjectedAttention : public Attention {
 public:
  /// The projections to q, k and v have biases where `bias` and context.bias are true, that of the
  /// output where context.bias is.
  explicit ProjectedAttention(const AttentionContext& context,
                              Projections projections = Projections::query_key_value,
                              bool bias = true);

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) final;
  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override = 0;
  Projections projections() const override;

  Unprojected attend_unprojected(NormedInput& rows, const torch::Tensor& mask) final;

 protected:
  /// attend_unprojected() before its heads are joined, [B,H,N,d]: attend() of the projections of
  /// `rows`, queries and keys turned by their positions where context_.rotary_base asks for it.
  virtual torch::Tensor mix_heads(NormedInput& rows, const torch::Tensor& mask);
  /// For a variant that overrides it.
  torch::Tensor normed(const NormedInput& rows, const torch::Tensor& mask) const;  // [B,N,D]
  torch::Tensor project_value(const torch::Tensor& x);  // [B,N,D] -> [B,H,N,d], a view

  /// `out` of attend(), whose rows of padding are zero, with those that context_.padded_rows asks
  /// for.
  torch::Tensor with_padded_rows(const torch::Tensor& out, const torch::Tensor& q,
                                 const torch::Tensor& k, const torch::Tensor& v,
                                 const torch::Tensor& mask) const;

  const AttentionContext context_;

 private:
  bool computes_padding() const {
    return reads_padding() || context_.padded_rows == PaddedRows::uniform;
  }
  ops::LinearWeights output() const { return weights_of(output_); }
  static ops::LinearWeights weights_of(const torch::nn::Linear& layer);
  torch::Tensor split_heads(const torch::Tensor& joined) const;  // [B,N,H*d] -> [B,H,N,d], a view
  torch::Tensor at_positions(const torch::Tensor& x) const;  // q or k [B,H,N,d], turned or as is

  const Projections projections_;
  // Empty where the variant has no such projection.
  torch::nn::Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, output_{nullptr};
};

/// Whether a parameter or buffer of that name belongs to the projections of a ProjectedAttention.
bool is_projection(const std::string& state_name);

/// The same where `attention` is one: others have layers of such names that are parts of them.
bool is_projection(const Attention& attention, const std::string& state_name);

}  // namespace lra
