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
// a few (sample, head) pairs at a time, and the backward pass computes their scores anew.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <fmt/ranges.h>

#include "attention_variants/attention.h"
#include "attention_variants/kernels/lsh.h"
#include "attention_variants/softmax.h"

namespace lra {
namespace {

struct ReformerOptions {
  int64_t num_hashes = 2;
  int64_t chunk_length = 64;  // c; N <= c is one chunk, unhashed
  int64_t num_buckets = 0;    // even; 0 = chosen from N, about two a chunk
  int64_t chunks_before = 1;
  int64_t chunks_after = 0;
  std::string key_scale = "rms";  // logits x·y/‖y‖; unit: divided by √d once more

  template <class Fields>
  void fields(Fields& f) {
    f("num_hashes", num_hashes, at_least(1));
    f("chunk_length", chunk_length, at_least(1));
    f("num_buckets", num_buckets, at_least(0));
    f("chunks_before", chunks_before, at_least(0));
    f("chunks_after", chunks_after, at_least(0));
    f("key_scale", key_scale, one_of({"rms", "unit"}));
  }

  void settle() const {
    if (num_buckets % 2 != 0) {
      bad_value("attention reformer", "num_buckets", "even (0 = chosen from the length)",
                num_buckets);
    }
  }
};

// How the sorted rounds are cut.
struct Chunking {
  int64_t length;         // c
  int64_t before, after;  // chunks that a chunk sees on either side
  int64_t slots() const { return before + 1 + after; }
};

constexpr double kPadded = -1e9;  // the score of a padded key
constexpr double kSelf = -1e5;    // that of a token with itself: above padding, below all else

// (sample, head) pairs whose sorted rounds have `tokens` tokens together: few enough scores at a
// time to stay in a CPU's cache; enough at a time to fill a GPU.
int64_t pairs_at_a_time(int64_t tokens, const Chunking& chunking, bool cuda) {
  const int64_t wanted = int64_t{1} << (cuda ? 26 : 20);
  return std::max<int64_t>(1, wanted / (tokens * chunking.length * chunking.slots()));
}

// At least float32.
torch::ScalarType wide(torch::ScalarType type) {
  return type == torch::kDouble ? torch::kDouble : torch::kFloat;
}

// A few (sample, head) pairs, their sorted rounds cut into C = R·L/c chunks with w = slots·c keys
// each.
class Slab {
 public:
  /// order [m,R,L]: which position stands where in each sorted round.
  Slab(const torch::Tensor& order, const Chunking& chunking)
      : pairs_(order.size(0)),
        rounds_(order.size(1)),
        length_(order.size(2)),
        chunks_(rounds_ * length_ / chunking.length),
        chunking_(chunking),
        queries_(order.reshape({pairs_, chunks_, chunking.length})) {
    std::vector<torch::Tensor> seen;
    for (int64_t slot = 0; slot < chunking.slots(); ++slot)
      seen.push_back(queries_.roll(chunking.before - slot, 1));
    keys_ = torch::cat(seen, 2);  // [m,C,w]
    const torch::Tensor pair = torch::arange(pairs_, order.options()).view({-1, 1, 1});
    query_rows_ = (queries_ + pair * length_).flatten();
    key_rows_ = (keys_ + pair * length_).flatten();
    const torch::Tensor round = torch::arange(rounds_, order.options()).view({-1, 1});
    const torch::Tensor place = torch::empty_like(order).scatter_(
        2, order,
        torch::arange(length_, order.options()).expand_as(order));  // the inverse of order
    sorted_rows_ = (order + (pair * rounds_ + round) * length_).flatten();
    unsorted_rows_ = (place + (pair * rounds_ + round) * length_).flatten();
  }

  /// x [m,L,d] -> the chunks' queries [m·C,c,d].
  torch::Tensor queries(const torch::Tensor& x) const {
    return rows(x, query_rows_, chunking_.length);
  }
  /// x [m,L,d] -> the chunks' keys [m·C,w,d].
  torch::Tensor keys(const torch::Tensor& x) const { return rows(x, key_rows_, keys_.size(2)); }

  /// Chunks' queries [m·C,c,d] -> [m,R,L,d], every round in the order of positions.
  torch::Tensor unsort(const torch::Tensor& x) const {
    return x.flatten(0, 1).index_select(0, unsorted_rows_).view({pairs_, rounds_, length_, -1});
  }

  /// The inverse of unsort: [m,R,L,d] -> [m,R·L,d], in the order of the chunks.
  torch::Tensor sort(const torch::Tensor& x) const {
    return x.flatten(0, 2).index_select(0, sorted_rows_).view({pairs_, rounds_ * length_, -1});
  }

  /// Chunks' keys [m·C,w,d] -> [m,R,L,d]: what a token has as a key of several chunks is summed.
  torch::Tensor fold(const torch::Tensor& x) const {
    const torch::Tensor slots =
        x.view({pairs_, chunks_, chunking_.slots(), chunking_.length, x.size(-1)});
    torch::Tensor sum;
    for (int64_t slot = 0; slot < chunking_.slots(); ++slot) {
      const torch::Tensor own = slots.select(2, slot).roll(slot - chunking_.before, 1);
      sum = sum.defined() ? sum.add_(own) : own;
    }
    return unsort(sum.flatten(0, 1));
  }

  /// Sets `scores` [m·C,c,w] of tokens with themselves.
  void fill_self(torch::Tensor& scores, double value) const {
    const int64_t per_round = chunks_ / rounds_;
    const torch::Tensor blocks = scores.view(
        {pairs_, rounds_, per_round, chunking_.length, chunking_.slots(), chunking_.length});
    const torch::Tensor query =
        queries_.view({pairs_, rounds_, per_round, chunking_.length, 1});  // [m,R,C/R,c,1]
    const torch::Tensor key =
        keys_.view({pairs_, rounds_, per_round, chunking_.slots(), 1, chunking_.length});
    for (int64_t slot = 0; slot < chunking_.slots(); ++slot) {
      const int64_t offset = slot - chunking_.before;
      torch::Tensor block = blocks.select(4, slot);  // [m,R,C/R,c,c]
      if (offset == 0) {
        block.diagonal(0, -2, -1).fill_(value);
        continue;
      }
      // A round has a token once, so that it can meet itself only where another round is in sight.
      const int64_t edge = std::min(std::abs(offset), per_round);
      const int64_t begin = offset < 0 ? 0 : per_round - edge;
      const torch::Tensor same =
          query.narrow(2, begin, edge)
              .eq(key.select(3, slot).narrow(2, begin, edge));  // [m,R,edge,c,c]
      block.narrow(2, begin, edge).masked_fill_(same, value);
    }
  }

 private:
  torch::Tensor rows(const torch::Tensor& x, const torch::Tensor& index, int64_t size) const {
    return x.flatten(0, 1).index_select(0, index).view({pairs_ * chunks_, size, -1});
  }

  int64_t pairs_, rounds_, length_, chunks_;
  Chunking chunking_;
  torch::Tensor queries_, keys_;  // positions [m,C,c], [m,C,w]
  torch::Tensor query_rows_, key_rows_, sorted_rows_, unsorted_rows_;
};

// Attention within the chunks, the rounds combined: x, k, v [P,L,d] (P = B·H), bias [P,L,1] (of
// keys, at least float32), order [P,R,L] -> [P,L,d]. The rounds' softmax and their combination are
// together one softmax over all that a token sees in any round. So the backward pass needs, to have
// every weight back from its round's softmax, one factor a token and round: that round's share.
class ChunkAttention : public torch::autograd::Function<ChunkAttention> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& bias, const torch::Tensor& order,
                               int64_t chunk_length, int64_t before, int64_t after) {
    const Chunking chunking{chunk_length, before, after};
    torch::Tensor out = torch::empty_like(v);
    torch::Tensor shares =
        torch::empty({order.size(0), order.size(1) * order.size(2), 1}, bias.options());
    Scores scores;
    for_each_slab(order, chunking, [&](int64_t first, int64_t count, const Slab& slab) {
      const auto part = [&](const torch::Tensor& t) { return t.narrow(0, first, count); };
      const torch::Tensor& s = scores.compute(slab, part(x), part(k), part(bias));
      const torch::Tensor& p = scores.softmax();
      const torch::Tensor mixed = torch::bmm(p.to(v.scalar_type()), slab.keys(part(v)));
      // The largest weight is e⁰ by the sum. The two make up the log-sum-exp, and are kept apart:
      // beside the score of a token with itself float32 would lose the sum.
      const torch::Tensor high = s.amax(-1, /*keepdim=*/true);               // [m·C,c,1]
      const torch::Tensor sum = p.amax(-1, /*keepdim=*/true).reciprocal_();  // [m·C,c,1]
      const torch::Tensor highs = slab.unsort(high);                         // [m,R,L,1]
      torch::Tensor share = (highs - highs.amax(1, /*keepdim=*/true)).exp_().mul_(slab.unsort(sum));
      share.div_(share.sum(1, /*keepdim=*/true));
      part(out).copy_(slab.unsort(mixed).mul(share).sum(1));
      part(shares).copy_(slab.sort(share));
    });
    context->save_for_backward({x, k, v, bias, order, out, shares});
    context->saved_data["chunk_length"] = chunk_length;
    context->saved_data["before"] = before;
    context->saved_data["after"] = after;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &k = saved[1], &v = saved[2], &bias = saved[3],
                        &order = saved[4], &out = saved[5], &shares = saved[6];
    const Chunking chunking{context->saved_data["chunk_length"].toInt(),
                            context->saved_data["before"].toInt(),
                            context->saved_data["after"].toInt()};
    const auto type = bias.scalar_type(), given = x.scalar_type();
    const torch::Tensor grad = grads[0].contiguous();                                    // [P,L,d]
    const torch::Tensor dot = (grad.to(type) * out.to(type)).sum(-1, /*keepdim=*/true);  // [P,L,1]
    torch::Tensor grad_x = torch::empty_like(x), grad_k = torch::empty_like(k),
                  grad_v = torch::empty_like(v);
    Scores scores;
    for_each_slab(order, chunking, [&](int64_t first, int64_t count, const Slab& slab) {
      const auto part = [&](const torch::Tensor& t) { return t.narrow(0, first, count); };
      scores.compute(slab, part(x), part(k), part(bias));
      const torch::Tensor& p = scores.softmax();  // [m·C,c,w]
      // A row of weights is its round's softmax times the round's share, which is cheaper to
      // multiply into the row of the gradient.
      const torch::Tensor share = part(shares).view({p.size(0), p.size(1), 1});
      const torch::Tensor mixed = slab.queries(part(grad)).mul(share).to(given);  // [m·C,c,d]
      part(grad_v).copy_(slab.fold(torch::bmm(p.to(given).transpose(1, 2), mixed)).sum(1));
      torch::Tensor grad_s = scores.product(mixed, slab.keys(part(v)));
      grad_s.sub_(slab.queries(part(dot)).mul_(share)).mul_(p);
      slab.fill_self(grad_s, 0);
      grad_s = grad_s.to(given);
      part(grad_x).copy_(slab.unsort(torch::bmm(grad_s, slab.keys(part(k)))).sum(1));
      part(grad_k).copy_(
          slab.fold(torch::bmm(grad_s.transpose(1, 2), slab.queries(part(x)))).sum(1));
    });
    return {grad_x, grad_k, grad_v, {}, {}, {}, {}, {}};
  }

 private:
  // Scores are the largest tensors by far: one allocation each serves all slabs.
  class Scores {
   public:
    /// x kᵀ of a slab, padded keys and tokens themselves masked [m·C,c,w], at least float32.
    const torch::Tensor& compute(const Slab& slab, const torch::Tensor& x, const torch::Tensor& k,
                                 const torch::Tensor& bias) {
      scores_ = product(slab.queries(x), slab.keys(k));
      scores_.add_(slab.keys(bias).transpose(1, 2));
      slab.fill_self(scores_, kSelf);
      return scores_;
    }

    /// The softmax of the last scores.
    const torch::Tensor& softmax() {
      weights_ = like(weights_, scores_.sizes(), scores_.options());
      at::_softmax_out(weights_, scores_, -1, /*half_to_float=*/false);
      return weights_;
    }

    /// a bᵀ, at least float32, in the place of the scores.
    torch::Tensor product(const torch::Tensor& a, const torch::Tensor& b) {
      raw_ = like(raw_, {a.size(0), a.size(1), b.size(1)}, a.options());
      torch::bmm_out(raw_, a, b.transpose(1, 2));
      return raw_.to(wide(a.scalar_type()));
    }

   private:
    // The first slab is the largest.
    static torch::Tensor like(const torch::Tensor& buffer, at::IntArrayRef sizes,
                              const torch::TensorOptions& options) {
      return buffer.defined() ? buffer.narrow(0, 0, sizes[0]) : torch::empty(sizes, options);
    }

    torch::Tensor raw_, scores_, weights_;
  };

  static void for_each_slab(const torch::Tensor& order, const Chunking& chunking,
                            const std::function<void(int64_t, int64_t, const Slab&)>& work) {
    const int64_t step = pairs_at_a_time(order.size(1) * order.size(2), chunking, order.is_cuda());
    for (int64_t first = 0; first < order.size(0); first += step) {
      const int64_t count = std::min(step, order.size(0) - first);
      work(first, count, Slab(order.narrow(0, first, count), chunking));
    }
  }
};

class ReformerAttention : public ProjectedAttention {
 public:
  ReformerAttention(const AttentionContext& context, const ReformerOptions& options)
      : ProjectedAttention(context, Projections::shared_query_key), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (has_cpu_kernels(context_.kernels, q)) {
      check_shared(k.is_same(q) || torch::equal(zero_padding(k, mask), zero_padding(q, mask)));
      const LshSettings settings = lsh_settings(q.size(2));
      return lsh_attention(q, v, mask, rotation_rows(q, settings), settings);
    }
    // Hashes and normalised keys in at least float32; the products below keep the type given.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    torch::Tensor x = zero_padding(q, mask);
    check_shared(k.is_same(q) || torch::equal(zero_padding(k, mask), x));
    const int64_t length = x.size(2);
    const bool one_chunk = length <= options_.chunk_length;
    const Chunking chunking = chunking_of(length);
    const int64_t padding = padded(length) - length;
    torch::Tensor values = zero_padding(v, mask), real = mask;
    if (padding > 0) {
      x = torch::constant_pad_nd(x, {0, 0, 0, padding});
      values = torch::constant_pad_nd(values, {0, 0, 0, padding});
      real = torch::constant_pad_nd(real, {0, padding});
    }
    const torch::Tensor order = one_chunk
                                    ? torch::arange(length, mask.options().dtype(torch::kInt64))
                                          .expand({x.size(0), x.size(1), 1, length})
                                    : sorted_rounds(x, real, length);  // [B,H,R,L]
    const torch::Tensor bias = torch::zeros(real.sizes(), x.options().dtype(wide(x.scalar_type())))
                                   .masked_fill_(real.logical_not(), kPadded)
                                   .unsqueeze(1)
                                   .expand({-1, x.size(1), -1})
                                   .unsqueeze(-1);  // [B,H,L,1]
    const auto joined = [](const torch::Tensor& t) { return t.flatten(0, 1).contiguous(); };
    torch::Tensor out =
        ChunkAttention::apply(joined(x), joined(keys(x)), joined(values), joined(bias),
                              joined(order), chunking.length, chunking.before, chunking.after);
    out = out.unflatten(0, {x.size(0), x.size(1)}).narrow(2, 0, length);
    return zero_padded_rows(out, mask);
  }

  std::vector<std::string> tables() const override { return {"rotations"}; }

  /// rotations [H,d,num_hashes,r]: r = num_buckets/2, or with factorised buckets half their sum.
  void set_table(const std::string& name, const torch::Tensor& table) override {
    if (name != "rotations") return ProjectedAttention::set_table(name, table);
    if (!table.defined() || table.dim() != 4 || !table.is_floating_point())
      throw Error(
          "table rotations should be [H,d,num_hashes,num_buckets/2], of a floating-point type");
    rotations_ = table;
    given_ = true;
  }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training || element_size < static_cast<int64_t>(sizeof(float)))
      return -1;  // depends on when autograd frees what, and on what is widened
    if (has_cpu_kernels(context_.kernels, element_size)) {
      return lsh_attention_bytes(batch, context_.heads, length, context_.head_dim,
                                 lsh_settings(length));
    }
    const Chunking chunking = chunking_of(length);
    const int64_t pairs = batch * context_.heads, d = context_.head_dim, tokens = padded(length),
                  sorted = (length <= options_.chunk_length ? 1 : options_.num_hashes) * tokens,
                  slab =
                      std::min(pairs, pairs_at_a_time(sorted, chunking, /*cuda=*/false)) * sorted;
    // x, its keys, the values and the result; the rounds' order, their shares, and the bias.
    const int64_t held = pairs * (4 * tokens * d + tokens + sorted) * element_size +
                         pairs * sorted * static_cast<int64_t>(sizeof(int64_t));
    // Of a slab: scores and weights; its positions; and either the values' chunks and what comes of
    // them, or that in two orders, weighed and summed.
    const int64_t scores = slab * 2 * chunking.slots() * chunking.length * element_size,
                  positions =
                      slab * (2 * chunking.slots() + 3) * static_cast<int64_t>(sizeof(int64_t)),
                  chunks = (chunking.slots() + 1) * slab,
                  weighed = 3 * slab + slab * tokens / sorted;
    return held + scores + positions + (std::max(chunks, weighed) * d + 4 * slab) * element_size;
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t d = context_.head_dim, c = options_.chunk_length;
    if (length <= c) return batch * context_.heads * 4 * length * length * d;
    const int64_t sorted = options_.num_hashes * ((length + c - 1) / c) * c;
    const int64_t window = c * (options_.chunks_before + 1 + options_.chunks_after);
    const int64_t hashing = 2 * sorted * d * rotation_width(length);
    return batch * context_.heads * (hashing + 4 * sorted * window * d);
  }

 private:
  static void check_shared(bool shared) {
    if (!shared)
      throw Unsupported("reformer reads one tensor as queries and as keys: k should equal q");
  }

  LshSettings lsh_settings(int64_t length) const {
    const Chunking chunking = chunking_of(length);
    const bool one_chunk = length <= options_.chunk_length;
    return {.rounds = one_chunk ? 1 : options_.num_hashes,
            .chunk = chunking.length,
            .before = chunking.before,
            .after = chunking.after,
            .key_scale = options_.key_scale == "rms" ? cpu::KeyScale::rms : cpu::KeyScale::unit,
            .bucket_factors = one_chunk ? std::vector<int64_t>() : bucket_factors(length)};
  }

  // As lsh_attention() takes them, for q [B,H,N,d].
  torch::Tensor rotation_rows(const torch::Tensor& q, const LshSettings& settings) {
    if (settings.bucket_factors.empty()) return torch::empty({0}, q.options());
    return rotations(q, rotation_width(q.size(2))).permute({0, 2, 3, 1}).contiguous();
  }

  // One chunk where there are no more tokens.
  Chunking chunking_of(int64_t length) const {
    if (length <= options_.chunk_length) return {.length = length, .before = 0, .after = 0};
    return {.length = options_.chunk_length,
            .before = options_.chunks_before,
            .after = options_.chunks_after};
  }

  // Up to whole chunks.
  int64_t padded(int64_t length) const {
    const int64_t chunk = chunking_of(length).length;
    return (length + chunk - 1) / chunk * chunk;
  }

  // The factors of the number of buckets: one, or two where it is large, so that a hash costs their
  // sum and not their product. As transformers chooses them.
  std::vector<int64_t> bucket_factors(int64_t length) const {
    if (options_.num_buckets > 0) return {options_.num_buckets};
    const int64_t c = options_.chunk_length;
    const int power = std::bit_width(static_cast<uint64_t>(2 * (length / c))) - 1;
    const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(context_.max_length / c)));
    if (int64_t{1} << power <= 2 * std::max(root, c)) return {int64_t{1} << power};
    return {int64_t{1} << power / 2, int64_t{1} << (power - power / 2)};
  }

  int64_t rotation_width(int64_t length) const {
    const std::vector<int64_t> factors = bucket_factors(length);
    return std::accumulate(factors.begin(), factors.end(), int64_t{0}) / 2;
  }

  // Keys such that x·k are the logits [B,H,L,d].
  torch::Tensor keys(const torch::Tensor& x) const {
    const torch::Tensor w = x.to(wide(x.scalar_type()));
    const double root = std::sqrt(static_cast<double>(x.size(-1)));
    if (options_.key_scale == "rms") {
      const torch::Tensor mean_square = w.square().mean(-1, /*keepdim=*/true);
      return (w * ((mean_square + 1e-6).rsqrt() / root)).to(x.scalar_type());
    }
    const torch::Tensor norm = at::linalg_vector_norm(w, 2, -1, /*keepdim=*/true);
    return (w / (norm.clamp_min(1e-12) * root)).to(x.scalar_type());
  }

  // The rotations for x [B,H,L,d], whose buckets need a width of `width`: [H,d,num_hashes,width].
  torch::Tensor rotations(const torch::Tensor& x, int64_t width) {
    const std::vector<int64_t> sizes = {x.size(1), x.size(3), options_.num_hashes, width};
    if (given_ && rotations_.sizes() != sizes) {
      throw Error(fmt::format("table rotations should be [{}] for this length, not [{}]",
                              fmt::join(sizes, ","), fmt::join(rotations_.sizes(), ",")));
    }
    if (!given_ && (!rotations_.defined() || rotations_.sizes() != sizes)) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(context_.seed);
      rotations_ = torch::randn(sizes, generator, torch::kDouble);
    }
    if (rotations_.device() != x.device()) rotations_ = rotations_.to(x.device());
    return rotations_.to(x.scalar_type());
  }

  // Positions of the tokens in each round, sorted by (bucket, position), padding last: x [B,H,L,d],
  // real [B,L] -> [B,H,R,L]. `length` of the L positions are the caller's.
  torch::Tensor sorted_rounds(const torch::Tensor& x_given, const torch::Tensor& real,
                              int64_t length) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor x = x_given.to(wide(x_given.scalar_type()));
    const std::vector<int64_t> factors = bucket_factors(length);
    const torch::Tensor table = rotations(x, rotation_width(length));
    const torch::Tensor padded = real.logical_not().unsqueeze(1);  // [B,1,L]
    std::vector<torch::Tensor> rounds;
    for (int64_t round = 0; round < options_.num_hashes; ++round) {
      torch::Tensor buckets = torch::zeros({x.size(0), x.size(1), x.size(2)},
                                           padded.options().dtype(torch::kInt64));  // [B,H,L]
      int64_t begin = 0, stride = 1;
      for (const int64_t factor : factors) {
        const int64_t half = factor / 2;
        // argmax [xR; -xR], without writing the second half.
        const torch::Tensor rotated =
            torch::matmul(x, table.select(2, round).narrow(-1, begin, half));  // [B,H,L,half]
        const auto [high, high_at] = rotated.max(-1);
        const auto [low, low_at] = rotated.min(-1);
        buckets.add_(torch::where(high.ge(low.neg()), high_at, low_at + half), stride);
        begin += half;
        stride *= factor;
      }
      rounds.push_back(torch::argsort(buckets.masked_fill_(padded, stride), /*stable=*/true,
                                      /*dim=*/-1, /*descending=*/false));
    }
    return torch::stack(rounds, 2);
  }

  const ReformerOptions options_;
  torch::Tensor rotations_;  // the table given, or the last one drawn
  bool given_ = false;
};

[[maybe_unused]] const bool registered = register_attention<ReformerAttention, ReformerOptions>({
    .name = "reformer",
    .title = "Reformer",
    .paper = "Kitaev et al., ICLR 2020",
    .complexity = "O(R N (w + log N)), R hashes, w keys a token; memory O(R N)",
    .softmax = Softmax::different,
    .linear = true,
    .state = "rotations [H,d,num_hashes,num_buckets/2], drawn from the seed",
    .peer = "transformers, reformer-pytorch",
});

}  // namespace
}  // namespace lra
