// Reformer against its formula written out token by token, its limits, its table, and what it holds
// in memory. The public Reformers are in tests/harness/commands/parity_test.cpp.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

struct ReformerCase {
  int64_t hashes, chunk, before, after;
  std::vector<int64_t> factors;  // of the number of buckets
  bool unit = false;             // key_scale=unit
  bool wrap_rounds = false;      // not this attention: windows wrap within each round

  std::string spec(bool automatic = false) const {
    return "reformer[num_hashes=" + std::to_string(hashes) +
           ",chunk_length=" + std::to_string(chunk) +
           ",num_buckets=" + std::to_string(automatic ? 0 : factors[0]) +
           ",chunks_before=" + std::to_string(before) + ",chunks_after=" + std::to_string(after) +
           ",key_scale=" + (unit ? "unit]" : "rms]");
  }
  int64_t width() const {
    int64_t sum = 0;
    for (const int64_t factor : factors) sum += factor;
    return sum / 2;
  }
};

// The bucket of a vector: rotated [r] by one round's rotations.
int64_t bucket_of(const torch::Tensor& rotated, const std::vector<int64_t>& factors) {
  int64_t bucket = 0, stride = 1, begin = 0;
  for (const int64_t factor : factors) {
    const torch::Tensor part = rotated.narrow(0, begin, factor / 2);
    bucket += stride * torch::cat({part, -part}).argmax().item<int64_t>();
    stride *= factor;
    begin += factor / 2;
  }
  return bucket;
}

// One sample and head: x, v [N,d], real [N], rotations [d,R,r]. Chunks stand in the padded
// sequence, so that unlike elsewhere the real tokens alone would not be cut in the same way.
torch::Tensor reformer_formula(const torch::Tensor& x, const torch::Tensor& v,
                               const torch::Tensor& real, const torch::Tensor& rotations,
                               const ReformerCase& c) {
  const int64_t n = x.size(0), d = x.size(1), padded = (n + c.chunk - 1) / c.chunk * c.chunk;
  const auto is_real = [&](int64_t i) { return i < n && real[i].item<bool>(); };
  std::vector<int64_t> sequence;  // of positions, all rounds
  for (int64_t r = 0; r < c.hashes; ++r) {
    const torch::Tensor rotated = x.detach().matmul(rotations.select(1, r));  // [N,r]
    std::vector<std::tuple<bool, int64_t, int64_t>> keys;  // padding last, bucket, position
    for (int64_t i = 0; i < padded; ++i)
      keys.emplace_back(!is_real(i), is_real(i) ? bucket_of(rotated[i], c.factors) : 0, i);
    std::ranges::sort(keys);
    for (const auto& key : keys) sequence.push_back(std::get<2>(key));
  }
  const double root = std::sqrt(static_cast<double>(d));
  const torch::Tensor norm = x.norm(2, -1, /*keepdim=*/true);
  const torch::Tensor k =
      c.unit ? x / norm / root : x / (x.square().mean(-1, /*keepdim=*/true) + 1e-6).sqrt() / root;
  const auto places = static_cast<int64_t>(sequence.size());
  const int64_t wrap = c.wrap_rounds ? padded / c.chunk : places / c.chunk;
  std::vector<std::vector<torch::Tensor>> mixed(static_cast<size_t>(n)), sums = mixed;
  for (int64_t place = 0; place < places; ++place) {
    const int64_t i = sequence[static_cast<size_t>(place)], chunk = place / c.chunk;
    if (!is_real(i)) continue;
    std::vector<int64_t> seen;
    std::vector<torch::Tensor> scores;
    for (int64_t offset = -c.before; offset <= c.after; ++offset) {
      const int64_t base = chunk / wrap * wrap;
      const int64_t other = base + ((chunk - base + offset) % wrap + wrap) % wrap;
      for (int64_t p = other * c.chunk; p < (other + 1) * c.chunk; ++p) {
        const int64_t j = sequence[static_cast<size_t>(p)];
        if (!is_real(j)) continue;
        seen.push_back(j);
        scores.push_back(j == i ? torch::tensor(-1e5, torch::kDouble) : x[i].dot(k[j]));
      }
    }
    const torch::Tensor s = torch::stack(scores);
    mixed[static_cast<size_t>(i)].push_back(
        torch::softmax(s, 0).matmul(v.index_select(0, torch::tensor(seen))));
    sums[static_cast<size_t>(i)].push_back(torch::logsumexp(s, 0));
  }
  std::vector<torch::Tensor> rows;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    rows.push_back(mixed[i].empty()
                       ? torch::zeros({d}, torch::kDouble)
                       : torch::softmax(torch::stack(sums[i]), 0).matmul(torch::stack(mixed[i])));
  }
  return torch::stack(rows);
}

torch::Tensor reformer_formula(const Inputs& in, const torch::Tensor& rotations,
                               const ReformerCase& c) {
  std::vector<torch::Tensor> samples;
  for (int64_t b = 0; b < in.q.size(0); ++b) {
    std::vector<torch::Tensor> heads;
    for (int64_t h = 0; h < in.q.size(1); ++h)
      heads.push_back(reformer_formula(in.q[b][h], in.v[b][h], in.mask[b], rotations[h], c));
    samples.push_back(torch::stack(heads));
  }
  return torch::stack(samples);
}

Inputs shared_inputs(const std::vector<int64_t>& lengths, int64_t n,
                     torch::ScalarType type = torch::kDouble, int64_t heads = 2,
                     int64_t width = 4) {
  Inputs in = make_inputs(lengths, n, type, heads, width);
  in.k = in.q;
  return in;
}

torch::Tensor draw_rotations(const ReformerCase& c) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{8});
  return torch::randn({2, 4, c.hashes, c.width()}, generator, torch::kDouble);
}

TEST(Reformer, EqualsTheFormulaWithItsGradients) {
  for (const ReformerCase& c :
       {ReformerCase{2, 4, 1, 0, {6}}, ReformerCase{1, 3, 0, 0, {4}}, ReformerCase{3, 5, 1, 1, {2}},
        ReformerCase{2, 4, 2, 1, {8}, true}, ReformerCase{4, 8, 1, 0, {4}, true}}) {
    Inputs in = shared_inputs({23, 14, 0}, 23);
    in.mask[1][3] = false;  // padding within the sequence
    const torch::Tensor rotations = draw_rotations(c), weight = torch::randn_like(in.v);
    const auto attention = make(c.spec());
    attention->set_table("rotations", rotations);
    std::vector<torch::Tensor> results[2];
    for (int i = 0; i < 2; ++i) {
      Inputs leaves = in;
      leaves.q = leaves.k = in.q.detach().clone().requires_grad_();
      leaves.v = in.v.detach().clone().requires_grad_();
      const torch::Tensor out =
          i == 0 ? attend(*attention, leaves) : reformer_formula(leaves, rotations, c);
      (out * weight).sum().backward();
      results[i] = {out, leaves.q.grad(), leaves.v.grad()};
    }
    for (size_t j = 0; j < 3; ++j)
      EXPECT_LT(difference(results[0][j], results[1][j]), 1e-12) << c.spec() << ", " << j;
  }
}

TEST(Reformer, ChoosesAndFactorisesTheBuckets) {
  // {N, c, max_length}: 2^⌊log₂(2⌊N/c⌋)⌋ buckets, in two factors above 2 max(√(max_length/c), c).
  for (const auto& [n, chunk, longest, factors] : {std::tuple{30, 4, 64, std::vector<int64_t>{8}},
                                                   {9, 4, 64, {4}},
                                                   {7, 4, 64, {2}},
                                                   {16, 2, 64, {4, 4}},
                                                   {16, 2, 128, {16}},  // √(128/2) = 8
                                                   {40, 2, 64, {4, 8}}}) {
    const ReformerCase c{2, chunk, 1, 0, factors};
    const AttentionContext context{
        .width = 8, .heads = 2, .head_dim = 4, .max_length = longest, .seed = 3};
    const auto attention = make(c.spec(/*automatic=*/true), torch::kDouble, context);
    const Inputs in = shared_inputs({n, n - 2}, n);
    const torch::Tensor rotations = draw_rotations(c);
    attention->set_table("rotations", rotations);
    EXPECT_LT(difference(attend(*attention, in), reformer_formula(in, rotations, c)), 1e-12)
        << n << " " << chunk;
  }
}

// The trap: windows that wrap within a round are another function, from the first chunk of each
// round on.
TEST(Reformer, WindowsReachIntoTheRoundBefore) {
  ReformerCase c{2, 4, 1, 0, {6}};
  const Inputs in = shared_inputs({24, 24}, 24);
  const torch::Tensor rotations = draw_rotations(c);
  const auto attention = make(c.spec());
  attention->set_table("rotations", rotations);
  c.wrap_rounds = true;
  EXPECT_GT(difference(attend(*attention, in), reformer_formula(in, rotations, c)), 0.05);
}

TEST(Reformer, OneChunkIsSoftmaxOverTheOtherTokens) {
  const Inputs in = shared_inputs({20, 9, 2}, 20);
  const torch::Tensor scores = in.q.matmul((in.q / in.q.norm(2, -1, /*keepdim=*/true)).mT());
  for (const bool unit : {false, true}) {
    const torch::Tensor hidden =
        torch::eye(20, torch::kBool).logical_or(in.mask.logical_not().unsqueeze(1).unsqueeze(1));
    const torch::Tensor expected =
        torch::softmax((unit ? scores / 2 : scores).masked_fill(hidden, -1e9), -1).matmul(in.v) *
        in.mask.unsqueeze(1).unsqueeze(-1);
    const auto attention =
        make(std::string("reformer[chunk_length=32,key_scale=") + (unit ? "unit]" : "rms]"));
    // transformers' 1e-6 beside the mean square stands in key_scale=rms.
    EXPECT_LT(difference(attend(*attention, in), expected), unit ? 1e-13 : 1e-5);
  }
}

// The weight of a token with itself is e^-100000 where it stands alone: float32 must keep its
// ratio.
TEST(Reformer, ATokenAloneSeesItself) {
  for (const char* spec : {"reformer", "reformer[num_hashes=3,chunk_length=4,chunks_after=1]"}) {
    Inputs in = shared_inputs({1, 17}, 17, torch::kFloat);
    in.v.requires_grad_();
    const torch::Tensor out = attend(*make(spec, torch::kFloat), in);
    EXPECT_LT(difference(out[0].narrow(1, 0, 1), in.v[0].narrow(1, 0, 1)), 1e-6) << spec;
    out[0].sum().backward();
    EXPECT_LT(difference(in.v.grad()[0].narrow(1, 0, 1), torch::ones({2, 1, 4})), 1e-6) << spec;
  }
}

TEST(Reformer, ReadsOneTensorAsQueriesAndKeys) {
  const auto attention = make("reformer[chunk_length=8]");
  Inputs in = shared_inputs({20, 12}, 20);
  const torch::Tensor expected = attend(*attention, in);
  in.k = in.q.clone();
  in.k[1].narrow(1, 12, 8).fill_(7);  // at padded positions
  EXPECT_TRUE(torch::equal(attend(*attention, in), expected));
  in.k[1][0][11][0] += 1e-6;
  EXPECT_THROW(attend(*attention, in), Unsupported);
  EXPECT_EQ(attention->named_parameters().find("key.weight"), nullptr);
  EXPECT_NE(attention->named_parameters().find("query_key.weight"), nullptr);
}

TEST(Reformer, RotationsAreATableFromTheSeed) {
  const Inputs in = shared_inputs({40}, 40);
  const std::string spec = "reformer[chunk_length=4,num_buckets=6]";
  const auto with_seed = [&](uint64_t seed) {
    return make(spec, torch::kDouble,
                {.width = 8, .heads = 2, .head_dim = 4, .max_length = 64, .seed = seed});
  };
  const auto attention = with_seed(1);
  const torch::Tensor drawn = attend(*attention, in);
  EXPECT_TRUE(torch::equal(attend(*with_seed(1), in), drawn));
  EXPECT_GT(difference(attend(*with_seed(2), in), drawn), 1e-3);
  EXPECT_EQ(attention->tables(), std::vector<std::string>{"rotations"});
  attention->set_table("rotations", torch::randn({2, 4, 2, 3}, torch::kDouble));
  EXPECT_GT(difference(attend(*attention, in), drawn), 1e-3);
  attention->set_table("rotations", torch::zeros({2, 4, 2, 4}));
  EXPECT_THROW(attend(*attention, in), Error);
  EXPECT_THROW(attention->set_table("rotations", torch::zeros({2, 4, 2})), Error);
  EXPECT_THROW(attention->set_table("rotation", torch::zeros({2, 4, 2, 3})), Error);
}

TEST(Reformer, RefusesOddBuckets) { EXPECT_THROW(make("reformer[num_buckets=3]"), UsageError); }

TEST(Reformer, CountsItsOperations) {
  const auto attention = make("reformer[chunk_length=8,num_hashes=3,num_buckets=6]");
  // 3 rounds of 40 positions with 16 keys each, 3 rotations; 5 samples, 2 heads of 4.
  EXPECT_EQ(attention->flops(5, 37), 5 * 2 * (3 * 40) * (4 * 16 * 4 + 2 * 3 * 4));
  EXPECT_EQ(attention->flops(5, 8), 5 * 2 * 4 * 8 * 8 * 4);
}

TEST(Reformer, HoldsScoresOfOnePairAtATime) {
  const int64_t n = 2048, pairs = 16, scores = pairs * 2 * n * 128 * 4;
  const auto attention =
      make("reformer", torch::kFloat,
           {.width = 64, .heads = pairs, .head_dim = 4, .max_length = n, .seed = 0});
  Inputs in = shared_inputs({n}, n, torch::kFloat, pairs, 4);
  for (const bool training : {false, true}) {
    in.q.set_requires_grad(training);
    in.v.set_requires_grad(training);
    const int64_t peak = peak_bytes([&] {
      torch::AutoGradMode grad(training);
      torch::Tensor out = attend(*attention, in);
      if (training) out.sum().backward();
    });
    EXPECT_LT(peak, scores / 2) << (training ? "training" : "inference");
  }
}

}  // namespace
}  // namespace lra
