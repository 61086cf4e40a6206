// The pluggable attention interface: what a layer calls, what a variant implements, and how a
// variant registers.
//
// A variant is one file: comment (paper, cost), options struct, class, one registration line. See
// nystrom.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"
#include "attention_variants/ops/dispatch.h"
#include "attention_variants/ops/linear.h"
#include "attention_variants/torch.h"

namespace lra {

/// The place an attention layer stands in.
struct AttentionContext {
  int64_t width = 64;         // D, model width
  int64_t heads = 2;          // H
  int64_t head_dim = 32;      // d; heads * head_dim need not equal width
  int64_t max_length = 2048;  // longest N that forward() will see
  uint64_t seed =
      0;  // of projections, hashes, random patterns: the same seed gives the same function
  Kernels kernels = Kernels::fused;
};

/// Which of q, k and v are one tensor where a layer calls attend().
enum class Projections {
  query_key_value,
  shared_query_key,  // one projection, query_key: k is q
  value_only,        // q and k are v: attend() reads v alone
};

/// Self-attention over a batch of sequences.
class Attention : public torch::nn::Module {
 public:
  ~Attention() override = default;

  /// x [B,N,D], mask [B,N] bool (true = a token) -> [B,N,D]; rows of padded positions are zero.
  /// What stands at padded positions, and the other samples of the batch, change nothing at real
  /// ones.
  virtual torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) = 0;

  /// The attention itself, without projections: q, k, v [B,H,N,d], mask [B,N] bool -> [B,H,N,d],
  /// same dtype. Throws Error where the variant has no such form.
  virtual torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& mask);

  /// How forward() calls attend(); whoever calls attend() alone should do the same.
  virtual Projections projections() const;

  /// Names of the tables that attend() draws from the seed for each shape it meets (hashes, random
  /// patterns) and that set_table() can put in their place.
  virtual std::vector<std::string> tables() const;

  /// Every later attend() uses this table; it throws Error where the shape does not fit q.
  virtual void set_table(const std::string& name, const torch::Tensor& table);

  /// Whether what stands at padded positions may change the rest all the same: then nothing about
  /// them is left out.
  virtual bool reads_padding() const;

  /// Whether padding cut from the end, or added there, changes nothing at real positions but
  /// rounding: an evaluation then pads no further than its samples need.
  virtual bool length_invariant() const;

  /// Every effective option, for the records.
  virtual json options() const = 0;

  /// Bytes that attend() holds at its peak above its inputs, as an account of its tensors says; -1
  /// where not given.
  virtual int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                                 bool training) const;

  /// Floating-point operations (a multiply-add is 2) of one attend() forward; -1 where not given.
  virtual int64_t flops(int64_t batch, int64_t length) const;
};

/// The rows that an attention layer reads: x [B,N,D], which go through a layer normalisation first
/// where one is given.
struct AttentionRows {
  torch::Tensor x;
  const RowNorm* norm = nullptr;
};

/// Owns the projections query, key, value [D -> H*d] and output [H*d -> D]; a variant overrides
/// attend() alone, or mix_heads() where it reads more than q, k and v.
class ProjectedAttention : public Attention {
 public:
  explicit ProjectedAttention(const AttentionContext& context,
                              Projections projections = Projections::query_key_value);

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) final;
  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override = 0;
  Projections projections() const override;

  /// forward() in two parts, for a model that computes what stands around it in the same passes:
  /// what the output projection reads, [B,N,H*d], and that projection. Whoever goes on with
  /// `rows.x` afterwards, as a residual does, lets its gradient be added in the pass of mix().
  /// Throws Error where x, mask, or what attend() gives, is of another shape.
  torch::Tensor mix(AttentionRows& rows, const torch::Tensor& mask);
  LinearWeights output() const { return {.weight = output_->weight, .bias = output_->bias}; }

 protected:
  /// mix() before its heads are joined, [B,H,N,d]: attend() of the projections of `rows`.
  virtual torch::Tensor mix_heads(AttentionRows& rows, const torch::Tensor& mask);
  /// For a variant that overrides it.
  torch::Tensor normed(const AttentionRows& rows, const torch::Tensor& mask) const;  // [B,N,D]
  torch::Tensor project_value(const torch::Tensor& x);  // [B,N,D] -> [B,H,N,d], a view

  const AttentionContext context_;

 private:
  void check_input(const torch::Tensor& x, const torch::Tensor& mask) const;  // throws Error
  torch::Tensor split_heads(const torch::Tensor& joined) const;  // [B,N,H*d] -> [B,H,N,d], a view

  const Projections projections_;
  // Empty where the variant has no such projection.
  torch::nn::Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, output_{nullptr};
};

/// Whether a parameter or buffer of that name belongs to the projections of a ProjectedAttention.
bool is_projection(const std::string& state_name);

/// "[2,3] Float", or "undefined": a tensor as messages name it.
std::string shape_text(const torch::Tensor& t);

/// Checks q, k, v [B,H,N,d] (equal shapes and dtype) and mask [B,N] bool once, at the public
/// boundary; throws Error.
void check_attend_inputs(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& mask);

/// Checks the shape of what an attention made of x; throws Error.
void check_attention_result(const torch::Tensor& y, const torch::Tensor& x,
                            at::IntArrayRef expected);

/// How a variant stands to softmax attention over all tokens.
enum class Softmax {
  exact,
  approximate,  // approaches it as its budget grows, or would in exact arithmetic
  different,    // another function, by design
};

/// What `lra list attentions` and the docs say of a variant.
struct AttentionInfo {
  std::string name;
  std::string title;       // "Nyström"
  std::string paper;       // "Xiong et al., AAAI 2021"
  std::string complexity;  // "O(N m)": time, and memory where no more is said
  Softmax softmax = Softmax::different;
  std::string budget;         // the option that trades cost for accuracy; may be empty
  bool linear = false;        // memory grows linearly with N, in inference and in training
  std::string state;          // learned tensors beside the projections, and tables; may be empty
  bool length_bound = false;  // has parameters sized by max_length
  std::string peer;           // what outputs and gradients were checked against
  // Options under which it computes its approximation of softmax alone, where its defaults add
  // something to it (a convolution, say).
  json approximation = json::object();
};

/// An attention and its options as a user names it: nystrom[num_landmarks=32].
struct AttentionSpec {
  std::string name;
  json options = json::object();  // those given, not the defaults

  /// The canonical text: the name, then the given options sorted by key.
  std::string text() const;
};

/// Reads "name", "name[key=value,...]" or, for one made from a file, "name:FILE"; throws UsageError
/// on a malformed one (names and keys are checked by the registry).
AttentionSpec parse_attention(const std::string& text);

/// Splits "a,b[x=1,y=2],c" at the commas outside brackets and reads each.
std::vector<AttentionSpec> parse_attentions(const std::string& text);

/// The registry. Names are unique; a second registration of a name throws.
using AttentionMaker =
    std::function<std::shared_ptr<Attention>(const AttentionContext&, const json& options)>;
struct AttentionEntry {
  AttentionInfo info;
  std::vector<std::string> option_names;
  json default_options;
  std::function<json(const json&)> effective_options;  // strict check of given options; all values
  AttentionMaker make;
};
bool register_attention(AttentionEntry entry);

/// The variants that run by their name alone, sorted by it; those made from a file are not here.
std::vector<const AttentionEntry*> attention_entries();

/// The variant of that name; throws UsageError that lists the valid names and the nearest.
const AttentionEntry& attention_entry(const std::string& name);

/// Makes a variant; throws UsageError on an unknown name, key or value.
std::shared_ptr<Attention> make_attention(const AttentionSpec& spec,
                                          const AttentionContext& context);

/// Builds the registry entry of a class with constructor (const AttentionContext&, const Options&).
/// Where Options has a `void settle()`, it is called on what was read, to bring options that depend
/// on each other to the values in effect.
template <class Variant, HasFields Options>
bool register_attention(const AttentionInfo& info) {
  const std::string where = "attention " + info.name;
  const auto read = [where](const json& given) {
    Options options;
    read_fields(given, options, where);
    if constexpr (requires { options.settle(); }) options.settle();
    return options;
  };
  return register_attention(AttentionEntry{
      .info = info,
      .option_names = field_names<Options>(),
      .default_options = write_fields(Options{}),
      .effective_options = [read](const json& given) { return write_fields(read(given)); },
      .make = [read](const AttentionContext& context,
                     const json& given) -> std::shared_ptr<Attention> {
        return std::make_shared<Variant>(context, read(given));
      }});
}

}  // namespace lra
