// Reformer: attention among tokens that a random hash puts near each other. Queries and keys are
// one vector x; a key is x/‖x‖. In each of `num_hashes` rounds the tokens are sorted by (bucket,
// position) with bucket = argmax [xR; -xR]. The sorted rounds are put one after another and cut
// into chunks; a chunk attends to itself and to the chunks before and after it in that whole
// sequence, cyclically. A token sees itself only where it sees nothing else. The rounds of a token
// are combined by the softmax of their log-sum-exps, so that it attends to all it sees in any round
// at once.
//
// Kitaev et al., "Reformer: The Efficient Transformer", ICLR 2020. Cost: O(R N w d) time, with R
// rounds and a window of w = (before + 1 + after) chunks of tokens, and O(R N (log N + N/c)) for
// hashing and sorting, until there are so many buckets that they are factorised. Memory O(R N d):
// a few (sample, head) pairs at a time, and the backward pass recomputes their scores.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "attention_variants/forward_count.h"
#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/lsh_attention.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

struct ReformerOptions {
  int64_t num_hashes = 2;
  int64_t chunk_length = 64;  // c; N <= c is one chunk, unhashed
  int64_t num_buckets = 0;    // even; 0 = chosen from N, one to two for each whole chunk
  int64_t chunks_before = 1;
  int64_t chunks_after = 0;
  // Logits x·y/‖y‖; unit: divided by √d once more.
  ops::KeyScale key_scale = ops::KeyScale::rms;
  Redraw redraw = Redraw::seed;  // of the rotations
  bool bias = true;              // of the projections to queries, keys and values

  template <class Fields>
  void fields(Fields& f) {
    f("num_hashes", num_hashes, at_least(1));
    f("chunk_length", chunk_length, at_least(1));
    f("num_buckets", num_buckets, at_least(0));
    f("chunks_before", chunks_before, at_least(0));
    f("chunks_after", chunks_after, at_least(0));
    f("key_scale", key_scale);
    f("redraw", redraw);
    f("bias", bias);
  }

  void settle() const {
    if (num_buckets % 2 != 0) {
      bad_value("attention reformer", "num_buckets", "even (0 = chosen from the length)",
                num_buckets);
    }
  }
};

class ReformerAttention : public ProjectedAttention {
 public:
  ReformerAttention(const AttentionContext& context, const ReformerOptions& options)
      : ProjectedAttention(context, Projections::shared_query_key, options.bias),
        options_(options) {
    if (options.redraw == Redraw::forward)
      redraw_ = register_module("redraw", std::make_shared<ForwardCount>());
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (!k.is_same(q) && !torch::equal(ops::zero_padding(k, mask), ops::zero_padding(q, mask)))
      throw Unsupported("reformer reads one tensor as queries and as keys: k should equal q");
    const ops::LshOptions settings = settings_for(q.size(2));
    if (redraw_ != nullptr) {
      const std::scoped_lock lock(drawing_);
      seed_ = seed_of_draw(context_.seed, redraw_->next());
      drawn_.clear();
    }
    return ops::lsh_attention(context_.kernels, {q, v, mask, rotations(q, settings), settings});
  }

  std::vector<std::string> tables() const override { return {"rotations"}; }

  /// rotations [H,d,num_hashes,r]: r = num_buckets/2, or with factorised buckets half their sum.
  void set_table(const std::string& name, const torch::Tensor& table) override {
    if (name != "rotations") return ProjectedAttention::set_table(name, table);
    if (!table.defined() || table.dim() != 4 || !table.is_floating_point())
      throw Error(
          "table rotations should be [H,d,num_hashes,num_buckets/2], of a floating-point type");
    given_ = table;
  }

  bool capturable() const override { return redraw_ == nullptr; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    return ops::lsh_attention_bytes(context_.kernels, shape(batch, length, element_size));
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    return ops::lsh_attention_flops(shape(batch, length));
  }

 private:
  ops::LshShape shape(int64_t batch, int64_t length, int64_t element_size = 4) const {
    return {.batch = batch,
            .heads = context_.heads,
            .length = length,
            .head_dim = context_.head_dim,
            .element_size = element_size,
            .options = settings_for(length)};
  }

  // One unhashed chunk where there are no more tokens.
  ops::LshOptions settings_for(int64_t length) const {
    ops::LshOptions settings{.chunk = length, .key_scale = options_.key_scale};
    if (length <= options_.chunk_length) return settings;
    settings.rounds = options_.num_hashes;
    settings.chunk = options_.chunk_length;
    settings.before = options_.chunks_before;
    settings.after = options_.chunks_after;
    settings.bucket_factors = bucket_factors(length);
    return settings;
  }

  // The factors of the number of buckets: one, or two where it is large, so that a hash costs their
  // sum and not their product. As transformers chooses them where chunks divide N; it pads N to
  // whole chunks before.
  std::vector<int64_t> bucket_factors(int64_t length) const {
    if (options_.num_buckets > 0) return {options_.num_buckets};
    const int64_t c = options_.chunk_length;
    const int power = std::bit_width(static_cast<uint64_t>(2 * (length / c))) - 1;
    const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(context_.max_length / c)));
    if (int64_t{1} << power <= 2 * std::max(root, c)) return {int64_t{1} << power};
    return {int64_t{1} << power / 2, int64_t{1} << (power - power / 2)};
  }

  static int64_t rotation_width(const ops::LshOptions& settings) {
    const std::vector<int64_t>& factors = settings.bucket_factors;
    return std::accumulate(factors.begin(), factors.end(), int64_t{0}) / 2;
  }

  // The rotations for x [B,H,N,d], as lsh_attention() takes them; none for one chunk.
  torch::Tensor rotations(const torch::Tensor& x, const ops::LshOptions& settings) {
    if (settings.bucket_factors.empty()) return torch::empty({0}, x.options());
    const std::vector<int64_t> sizes = {x.size(1), x.size(3), settings.rounds,
                                        rotation_width(settings)};
    return rotation_table(sizes, x.device())
        .to(ops::wide_type(x.scalar_type()))
        .permute({0, 2, 3, 1})
        .contiguous();
  }

  // The table given, or one drawn and kept: a graph that was recorded at another length, whose
  // buckets are others, still reads its own. Several threads may call attend().
  torch::Tensor rotation_table(const std::vector<int64_t>& sizes, torch::Device device) {
    const std::scoped_lock lock(drawing_);
    if (given_.defined()) {
      if (given_.sizes() != sizes) {
        throw Error(fmt::format("table rotations should be [{}] for this length, not [{}]",
                                fmt::join(sizes, ","), fmt::join(given_.sizes(), ",")));
      }
      if (given_.device() != device) given_ = given_.to(device);
      return given_;
    }
    torch::Tensor& drawn = drawn_[{sizes, device.str()}];
    if (!drawn.defined()) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(seed_);
      drawn = torch::randn(sizes, generator, torch::kDouble).to(device);
    }
    return drawn;
  }

  const ReformerOptions options_;
  std::mutex drawing_;
  torch::Tensor given_;  // the table, if any
  std::map<std::pair<std::vector<int64_t>, std::string>, torch::Tensor> drawn_;  // by device
  uint64_t seed_ = context_.seed;                                                // of these
  std::shared_ptr<ForwardCount> redraw_;  // empty where they stay
};

[[maybe_unused]] const bool reformer_registered = register_attention<ReformerAttention,
                                                                     ReformerOptions>({
    .name = "reformer",
    .title = "Reformer",
    .paper = "Kitaev et al., ICLR 2020",
    .complexity = "O(R N (w + log N)), R hashes, w keys a token; memory O(R N)",
    .softmax = Softmax::different,
    .linear = true,
    .state =
        "rotations [H,d,num_hashes,num_buckets/2], drawn from the seed; redraw.forwards [] where "
        "each pass draws them",
    .can_rotate = true,
    .peer = "transformers, reformer-pytorch",
    .draws_in_passes = {{"redraw", "forward"}},
});

}  // namespace
}  // namespace lra
