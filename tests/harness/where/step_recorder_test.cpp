// What the recorder of steps says that a step does, by steps of which that is known.
#include "harness/where/step_recorder.h"

#include <gtest/gtest.h>

#include <thread>

#include "attention_variants/ops/linear.h"
#include "harness/where/op_traits.h"

namespace lra::where {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kNap{20};

void nap_as(const char* op) {
  RECORD_FUNCTION(op, c10::ArrayRef<const c10::IValue>{});
  std::this_thread::sleep_for(kNap);
}

OpSum sum_of(const StepRecorder& recorder, const std::string& op, const std::string& part,
             StepPass pass = StepPass::forward) {
  const OpTraits traits = traits_of(op);
  const auto found = recorder.sums().find({traits.kind, op, part, pass});
  return found == recorder.sums().end() ? OpSum{.calls = 0} : found->second;
}

nanoseconds in_ops(const StepRecorder& recorder) {
  nanoseconds time{0};
  for (const auto& [key, sum] : recorder.sums()) time += sum.time;
  return time;
}

TEST(StepRecorderTimes, FindsAPlantedSlowOpInItsPart) {
  StepRecorder recorder(torch::kCPU);
  for (int i = 0; i < 2; ++i) {
    recorder.record([] {
      for (const char* part : {"layer 1", "layer 2"}) {
        RECORD_USER_SCOPE(part);
        torch::ones({4}).add_(1);
        if (part == std::string("layer 2")) nap_as("test::slow");
      }
    });
  }
  EXPECT_EQ(recorder.steps(), 2);
  EXPECT_EQ(sum_of(recorder, "test::slow", "layer 2").calls, 2);
  EXPECT_GE(sum_of(recorder, "test::slow", "layer 2").time, 2 * kNap);
  EXPECT_EQ(sum_of(recorder, "test::slow", "layer 1").calls, 0);
  EXPECT_EQ(sum_of(recorder, "aten::add_", "layer 1").calls, 2);
  for (const auto& [key, sum] : recorder.sums()) {
    const std::string& op = std::get<1>(key);
    EXPECT_TRUE(op == "test::slow" || sum.time < 2 * kNap) << op;
  }
}

TEST(StepRecorderTimes, TimesAreWithoutThoseInsideAndAddUpToTheStep) {
  StepRecorder recorder(torch::kCPU);
  recorder.record([] {
    std::this_thread::sleep_for(kNap);  // in no op
    RECORD_FUNCTION("test::outer", c10::ArrayRef<const c10::IValue>{});
    for (int i = 0; i < 3; ++i) nap_as("test::inner");
  });
  const OpSum outer = sum_of(recorder, "test::outer", ""),
              inner = sum_of(recorder, "test::inner", "");
  EXPECT_EQ(inner.calls, 3);
  EXPECT_GE(inner.time, 3 * kNap);
  EXPECT_LT(outer.time, kNap) << "what is inside is not its own";
  const nanoseconds known = in_ops(recorder) + recorder.recording();
  EXPECT_GE(recorder.total() - known, kNap) << "the time in no op is left";
  EXPECT_LT(recorder.total() - known, 2 * kNap + milliseconds(100));
}

TEST(StepRecorder, CountsTheWorkOfProducts) {
  const auto a = torch::randn({3, 5}).requires_grad_(), b = torch::randn({5, 7}).requires_grad_();
  const auto bias = torch::randn({7});
  StepRecorder recorder(torch::kCPU);
  recorder.record([&] {
    torch::Tensor y;
    {
      RECORD_USER_SCOPE("layer 1");
      y = torch::mm(a, b);
    }
    {
      RECORD_USER_SCOPE("head");
      const torch::NoGradGuard no_grad;
      torch::addmm(bias, a, b);
    }
    y.backward(torch::ones_like(y));
  });
  const OpSum forward = sum_of(recorder, "aten::mm", "layer 1");
  EXPECT_EQ(forward.calls, 1);
  EXPECT_EQ(forward.flops, 2 * 3 * 5 * 7);
  EXPECT_EQ(forward.bytes, 4 * (3 * 5 + 5 * 7 + 3 * 7));
  EXPECT_EQ(sum_of(recorder, "aten::addmm", "head").flops, 2 * 3 * 5 * 7);
  const OpSum backward = sum_of(recorder, "aten::mm", "layer 1", StepPass::backward);
  EXPECT_EQ(backward.calls, 2) << "the part is that of the forward pass";
  EXPECT_EQ(backward.flops, 2 * forward.flops);
}

TEST(StepRecorder, CountsTheBytesOfRowsAndCopies) {
  const auto x = torch::randn({6, 10}), row = torch::randn({1, 10});
  StepRecorder recorder(torch::kCPU);
  recorder.record([&] {
    torch::add(x, row.expand({6, 10}));
    torch::empty({6, 10}).copy_(x);
    torch::empty({6, 10}).zero_();
    torch::relu(x).view({60});
  });
  EXPECT_EQ(sum_of(recorder, "aten::add", "").bytes, 4 * (60 + 10 + 60)) << "expanded: 10 numbers";
  EXPECT_EQ(sum_of(recorder, "aten::copy_", "").bytes, 4 * (60 + 60));
  EXPECT_EQ(sum_of(recorder, "aten::empty", "").bytes, -1) << "nothing is moved";
  EXPECT_EQ(sum_of(recorder, "aten::view", "").bytes, -1);
  EXPECT_EQ(sum_of(recorder, "aten::add", "").flops, -1);
}

TEST(StepRecorder, AnOperatorThatHandsItsWorkOnHasNone) {
  const auto x = torch::randn({6, 10});
  StepRecorder recorder(torch::kCPU);
  recorder.record([&] {
    torch::relu(x);
    x.sum();
    x.to(torch::kFloat);  // as it is
  });
  ASSERT_EQ(sum_of(recorder, "aten::clamp_min", "").calls, 1) << "what relu calls";
  EXPECT_EQ(sum_of(recorder, "aten::relu", "").bytes, -1);
  EXPECT_EQ(sum_of(recorder, "aten::clamp_min", "").bytes, 4 * 2 * 60);
  ASSERT_EQ(sum_of(recorder, "aten::fill_", "").calls, 1) << "what sum begins with";
  EXPECT_EQ(sum_of(recorder, "aten::sum", "").bytes, 4 * (60 + 1));
  EXPECT_EQ(sum_of(recorder, "aten::to", "").bytes, -1) << "nothing was moved";
}

TEST(StepRecorder, SeesOwnKernelsInBothPasses) {
  const auto x = torch::randn({2, 3, 8}).requires_grad_(),
             w = torch::randn({4, 8}).requires_grad_();
  const auto bias = torch::zeros({4}).requires_grad_();
  const auto run = [&](ops::Kernels kernels) {
    RECORD_USER_SCOPE("layer 1");
    return ops::linear(kernels, x, nullptr, {{.weight = w, .bias = bias}}).y[0];
  };
  StepRecorder recorder(torch::kCPU);
  recorder.record([&] { run(ops::Kernels::fused).sum().backward(); });
  const OpSum forward = sum_of(recorder, "lra::linear", "layer 1"),
              backward = sum_of(recorder, "lra::linear", "layer 1", StepPass::backward);
  EXPECT_EQ(forward.calls, 1);
  EXPECT_EQ(forward.flops, 2 * 6 * 8 * 4);
  EXPECT_EQ(forward.bytes, 4 * (6 * 8 + 8 * 4 + 6 * 4));
  EXPECT_EQ(backward.calls, 1);
  EXPECT_EQ(backward.flops, 2 * forward.flops);
  EXPECT_EQ(backward.bytes, -1);
  // LibTorch's operators are seen by themselves.
  recorder.record([&] { run(ops::Kernels::reference).sum().backward(); });
  EXPECT_EQ(sum_of(recorder, "lra::linear", "layer 1").calls, 1);
}

TEST(StepRecorder, LeavesNothingBehind) {
  {
    const StepRecorder recorder(torch::kCPU);
    EXPECT_TRUE(at::hasCallbacks());
    EXPECT_THROW(StepRecorder{torch::kCPU}, c10::Error) << "one at a time";
    EXPECT_TRUE(at::hasCallbacks());
  }
  EXPECT_FALSE(at::hasCallbacks());
  const StepRecorder again(torch::kCPU);
  EXPECT_EQ(again.steps(), 0);
}

TEST(OpTraits, KnowOperatorsByTheirNames) {
  EXPECT_EQ(traits_of("aten::bmm").account, Account::product);
  EXPECT_EQ(traits_of("aten::addmm").account, Account::sum);
  EXPECT_EQ(traits_of("aten::zero_").kind, WorkKind::copies);
  EXPECT_EQ(traits_of("aten::empty").kind, WorkKind::scratch);
  EXPECT_EQ(traits_of("aten::_fused_adamw_").kind, WorkKind::optimizer);
  EXPECT_EQ(traits_of("lra::softmax_attention").kind, WorkKind::attention);
  EXPECT_EQ(traits_of("lra::add_projected").kind, WorkKind::products);
  for (const char* unknown : {"aten::view", "aten::", "lra::", "", "mm of another", "my::mm"})
    EXPECT_EQ(traits_of(unknown).kind, WorkKind::other) << unknown;
}

}  // namespace
}  // namespace lra::where
