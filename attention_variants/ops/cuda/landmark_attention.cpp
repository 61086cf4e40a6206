// Launches of a forward pass: 7, and a product of LibTorch's; of a backward pass 12, and two
// products; three fewer where heads are so many that no softmax is divided.
#include <cmath>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/heads.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/softmax.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cuda {
namespace {

using List = torch::autograd::variable_list;

// q, k, v [B,H,N,d], mask [B,N], taps [H,K] float32.
struct LandmarkInputs {
  torch::Tensor q, k, v, mask, taps;
};

// What the forward pass makes and the backward pass reads, of n = B H matrices.
struct LandmarkState {
  torch::Tensor q, k;           // landmarks [B,H,m,d]
  torch::Tensor factors, real;  // [B,m] float32, bool; real undefined: all are
  torch::Tensor a, norms, z;    // [n,s,s], [n], [kept,n,s,s] float32
  torch::Tensor bv, bv_stats;   // B V [B,H,m,d]
  torch::Tensor x;              // Z (B V) [B,H,m,d]
  torch::Tensor fx, fx_stats;   // F (Z (B V)) [B,H,N,d]

  List list() const { return {q, k, factors, real, a, norms, z, bv, bv_stats, x, fx, fx_stats}; }
  static LandmarkState of(List::const_iterator i) {
    return {i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], i[9], i[10], i[11]};
  }
};

class LandmarkOp {
 public:
  LandmarkOp(const LandmarkInputs& in, const LandmarkOptions& options)
      : in_(in), options_(options), m_(options.landmarks) {}

  torch::Tensor forward(LandmarkState& s, bool differentiated) const {
    make_landmarks(s);
    invert(s, differentiated ? options_.iterations + 1 : 1);
    SoftmaxTensors b = bv(s);
    softmax_forward(b);
    s.bv = b.out;
    s.bv_stats = b.stats;
    s.x = product(inverse_of(s), s.bv);
    const torch::Tensor out = has_taps() ? empty_heads_like(in_.q) : torch::Tensor();
    if (has_taps()) convolve(in_.v, tokens(), in_.mask, out, /*backward=*/false);
    SoftmaxTensors f = fx(s);
    softmax_forward(f, out);
    s.fx = f.out;
    s.fx_stats = f.stats;
    return has_taps() ? out : s.fx;
  }

  // Of q, k, v and the taps.
  List backward(const LandmarkState& s, const torch::Tensor& grad_out) const {
    const SoftmaxGradients grad = empty_gradients(in_.q, in_.k, in_.v);
    const SoftmaxGradients of_fx =
        softmax_backward(fx(s), grad_out, {.q = grad.q, .k = {}, .v = {}});
    const torch::Tensor grad_z = torch::bmm(matrices(of_fx.v), matrices(s.bv).transpose(1, 2)),
                        grad_bv = product(inverse_of(s).transpose(1, 2), of_fx.v);
    const SoftmaxGradients of_bv =
        softmax_backward(bv(s), grad_bv, {.q = {}, .k = grad.k, .v = grad.v});
    invert_backward(s, grad_z, of_bv.q, of_fx.k);
    LandmarksParams p = landmarks_params(s);
    p.grad_q_means = of_bv.q.const_data_ptr();
    p.grad_k_means = of_fx.k.const_data_ptr();
    p.grad_q = mutable_heads_of(grad.q);
    p.grad_k = mutable_heads_of(grad.k);
    start(&KernelTable::landmarks_backward, in_.q, p);
    if (!has_taps()) return {grad.q, grad.k, grad.v, torch::zeros_like(in_.taps)};
    convolve(grad_out, in_.mask, tokens(), grad.v, /*backward=*/true);
    return {grad.q, grad.k, grad.v, taps_gradient(grad_out)};
  }

 private:
  int64_t batch() const { return in_.q.size(0); }
  int64_t heads() const { return in_.q.size(1); }
  int64_t depth() const { return in_.q.size(3); }
  int64_t items() const { return batch() * heads(); }
  bool has_taps() const { return in_.taps.size(1) > 0; }
  /// Positions whose q, k and v count for landmarks and convolution.
  torch::Tensor tokens() const {
    return options_.padding == LandmarkPadding::ignored ? torch::Tensor() : in_.mask;
  }

  // [B,H,m,d] as [n,m,d] float32.
  torch::Tensor matrices(const torch::Tensor& x) const {
    return dense(x).view({items(), m_, depth()}).to(torch::kFloat);
  }
  // a [n,m,m] times x [B,H,m,d], in the type of x.
  torch::Tensor product(const torch::Tensor& a, const torch::Tensor& x) const {
    return torch::bmm(a, matrices(x)).to(x.scalar_type()).view(x.sizes());
  }
  torch::Tensor inverse_of(const LandmarkState& s) const {
    return s.z[s.z.size(0) - 1].narrow(1, 0, m_).narrow(2, 0, m_);
  }

  SoftmaxTensors bv(const LandmarkState& s) const {
    return {s.q, in_.k, in_.v, s.real, in_.mask, s.bv, s.bv_stats};
  }
  SoftmaxTensors fx(const LandmarkState& s) const {
    return {in_.q, s.k, s.x, in_.mask, s.real, s.fx, s.fx_stats};
  }

  LandmarksParams landmarks_params(const LandmarkState& s) const {
    LandmarksParams p = {};
    p.storage = storage_of(in_.q);
    p.segments =
        options_.kind == LandmarkKind::segment_means ? Segments::disjoint : Segments::overlapping;
    p.over = options_.padding == LandmarkPadding::masked ? SegmentMeanOver::tokens
                                                         : SegmentMeanOver::positions;
    p.batch = static_cast<int>(batch());
    p.heads = static_cast<int>(heads());
    p.length = static_cast<int>(in_.q.size(2));
    p.depth = static_cast<int>(depth());
    p.landmarks = static_cast<int>(m_);
    p.q = heads_of(in_.q);
    p.k = heads_of(in_.k);
    p.mask = data_of<bool>(tokens());
    p.q_means = s.q.mutable_data_ptr();
    p.k_means = s.k.mutable_data_ptr();
    p.factors = s.factors.mutable_data_ptr<float>();
    p.real = data_of<bool>(s.real);
    return p;
  }
  void make_landmarks(LandmarkState& s) const {
    s.q = torch::empty({batch(), heads(), m_, depth()}, in_.q.options());
    s.k = torch::empty_like(s.q);
    s.factors = empty_floats(in_.q, {batch(), m_});
    if (options_.padding == LandmarkPadding::masked)
      s.real = torch::empty({batch(), m_}, in_.mask.options());
    start(&KernelTable::landmarks_forward, in_.q, landmarks_params(s));
  }

  LandmarkMatrixParams matrix_params(const LandmarkState& s) const {
    LandmarkMatrixParams p = {};
    p.storage = storage_of(in_.q);
    p.batch = static_cast<int>(batch());
    p.heads = static_cast<int>(heads());
    p.landmarks = static_cast<int>(m_);
    p.depth = static_cast<int>(depth());
    p.scale = 1 / std::sqrt(static_cast<float>(depth()));
    p.q = s.q.const_data_ptr();
    p.k = s.k.const_data_ptr();
    p.real = data_of<bool>(s.real);
    p.a = s.a.mutable_data_ptr<float>();
    p.norms = s.norms.mutable_data_ptr<float>();
    p.global_start = options_.start == InverseStart::global;
    return p;
  }
  InverseParams inverse_params(const LandmarkState& s) const {
    InverseParams p = {};
    p.matrices = static_cast<int>(items());
    p.m = static_cast<int>(m_);
    p.iterations = static_cast<int>(options_.iterations);
    p.global_start = options_.start == InverseStart::global;
    p.a = s.a.const_data_ptr<float>();
    p.norms = s.norms.const_data_ptr<float>();
    p.kept = static_cast<int>(s.z.size(0));
    p.z = s.z.mutable_data_ptr<float>();
    return p;
  }
  void invert(LandmarkState& s, int64_t kept) const {
    const int64_t size = square_size(static_cast<int>(m_));
    s.a = empty_floats(in_.q, {items(), size, size});
    s.norms = empty_floats(in_.q, {items()});
    s.z = empty_floats(in_.q, {kept, items(), size, size});
    start(&KernelTable::landmark_matrix_forward, in_.q, matrix_params(s));
    start(&KernelTable::inverse_forward, in_.q, inverse_params(s));
  }
  // Adds to the gradients of the landmarks.
  void invert_backward(const LandmarkState& s, const torch::Tensor& grad_z,
                       const torch::Tensor& grad_q, const torch::Tensor& grad_k) const {
    const torch::Tensor grad_a = torch::empty_like(s.a), along = torch::empty_like(s.norms),
                        scratch = empty_floats(in_.q, {inverse_scratch(items(), m_, true)});
    InverseParams inverse = inverse_params(s);
    inverse.grad_z = grad_z.const_data_ptr<float>();
    inverse.scratch = scratch.mutable_data_ptr<float>();
    inverse.grad_a = grad_a.mutable_data_ptr<float>();
    inverse.along = along.mutable_data_ptr<float>();
    start(&KernelTable::inverse_backward, in_.q, inverse);
    LandmarkMatrixParams matrix = matrix_params(s);
    matrix.grad_a = inverse.grad_a;
    matrix.along = inverse.along;
    matrix.grad_q = grad_q.mutable_data_ptr();
    matrix.grad_k = grad_k.mutable_data_ptr();
    start(&KernelTable::landmark_matrix_backward, in_.q, matrix);
  }

  template <class Params>
  Params conv_params() const {
    Params p = {};
    p.storage = storage_of(in_.q);
    p.batch = static_cast<int>(batch());
    p.heads = static_cast<int>(heads());
    p.length = static_cast<int>(in_.q.size(2));
    p.depth = static_cast<int>(depth());
    p.taps = static_cast<int>(in_.taps.size(1));
    return p;
  }
  // Writes y forward; backward adds to it the gradient, given that of the result.
  void convolve(const torch::Tensor& x, const torch::Tensor& x_mask, const torch::Tensor& y_mask,
                const torch::Tensor& y, bool backward) const {
    auto p = conv_params<DepthwiseConvParams>();
    p.reversed = p.add = backward;
    p.x = heads_of(x);
    p.x_mask = data_of<bool>(x_mask);
    p.weights = in_.taps.const_data_ptr<float>();
    p.y = mutable_heads_of(y);
    p.y_mask = data_of<bool>(y_mask);
    start(&KernelTable::depthwise_conv, in_.q, p);
  }
  torch::Tensor taps_gradient(const torch::Tensor& grad_out) const {
    auto p = conv_params<DepthwiseConvWeightParams>();
    const torch::Tensor grad = torch::empty_like(in_.taps),
                        scratch = empty_floats(
                            in_.q,
                            {depthwise_conv_scratch(p.batch, p.heads, p.length, p.depth, p.taps)});
    p.x = heads_of(in_.v);
    p.grad_y = heads_of(grad_out);
    p.x_mask = data_of<bool>(tokens());
    p.y_mask = data_of<bool>(in_.mask);
    p.scratch = scratch.mutable_data_ptr<float>();
    p.grad_weights = grad.mutable_data_ptr<float>();
    start(&KernelTable::depthwise_conv_weight_grad, in_.q, p);
    return grad;
  }

  const LandmarkInputs& in_;
  const LandmarkOptions& options_;
  const int64_t m_;
};

struct LandmarkSettings {
  LandmarkOptions options;
  torch::ScalarType taps;
};

class LandmarkFunction : public torch::autograd::Function<LandmarkFunction> {
  using Context = torch::autograd::AutogradContext;
  static constexpr int kInputs = 5;

 public:
  static torch::Tensor forward(Context* context, const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& mask,
                               const torch::Tensor& taps, const LandmarkOptions& options,
                               bool differentiated) {
    const NoAutocast guard;
    const LandmarkInputs in = {with_readable_rows(q), with_readable_rows(k), with_readable_rows(v),
                               dense(mask), dense(taps.to(torch::kFloat))};
    LandmarkState state;
    const torch::Tensor out = LandmarkOp(in, options).forward(state, differentiated);
    if (differentiated) {
      List kept = {in.q, in.k, in.v, in.mask, in.taps};
      const List made = state.list();
      kept.insert(kept.end(), made.begin(), made.end());
      context->save_for_backward(kept);
      save_settings(*context, LandmarkSettings{options, taps.scalar_type()});
    }
    return out;
  }

  static List backward(Context* context, List given) {
    const NoAutocast guard;
    const List kept = saved_tensors(*context);
    const auto& [options, taps] = saved_settings<LandmarkSettings>(*context);
    const LandmarkInputs in = {kept[0], kept[1], kept[2], kept[3], kept[4]};
    const List grad =
        LandmarkOp(in, options)
            .backward(LandmarkState::of(kept.begin() + kInputs), with_readable_rows(given[0]));
    return {grad[0], grad[1], grad[2], {}, grad[3].to(taps), {}, {}};
  }
};

}  // namespace

bool takes(const Place& place, const LandmarkShape& shape) {
  const LandmarkOptions& o = shape.options;
  return tiles_take(place, shape.batch, shape.heads, shape.length, shape.head_dim) &&
         // Of grids: batches of queries and of keys, and parts of 64 positions.
         shape.batch <= INT16_MAX && o.landmarks <= kMostSquare &&
         has_room(place, o.landmarks > kSmallSquare || shape.conv_kernel > kFewTaps
                             ? kMostSharedBytes
                             : 0) &&
         shape.conv_kernel <= kMostTaps &&
         (shape.conv_kernel == 0 || shape.length <= int64_t{UINT16_MAX} * 64) && !o.exact_inverse &&
         (o.kind == LandmarkKind::segment_means || o.kind == LandmarkKind::adaptive_pool);
}

torch::Tensor run(const LandmarkCall& call) {
  const bool differentiated = is_differentiated({call.q, call.k, call.v, call.conv_weight});
  return LandmarkFunction::apply(call.q, call.k, call.v, call.mask, call.conv_weight, call.options,
                                 differentiated);
}

}  // namespace lra::ops::cuda
