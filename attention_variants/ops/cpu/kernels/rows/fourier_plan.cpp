#include "attention_variants/ops/cpu/kernels/rows/fourier_plan.h"

#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <vector>

namespace lra::ops::cpu {
namespace {

struct Plan {
  std::vector<float> roots, twiddles, turns;
  std::vector<int32_t> place;
  FourierPlan view;
};

void append_root(std::vector<float>& to, int64_t numerator, int64_t denominator) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(numerator % denominator) /
                       static_cast<double>(denominator);
  to.push_back(static_cast<float>(std::cos(angle)));
  to.push_back(static_cast<float>(std::sin(angle)));
}

// Radices of the stages, the last of which has no twiddles.
std::vector<int64_t> stages_of(int64_t size, int64_t radix) {
  std::vector<int64_t> stages = {radix};
  for (size /= radix; size > 4; size /= 4) stages.push_back(4);
  stages.push_back(size);
  return stages;
}

// The frequency that the transform leaves at `place`.
int64_t frequency_at(int64_t place, int64_t size, const std::vector<int64_t>& stages) {
  int64_t frequency = 0, step = 1;
  for (const int64_t radix : stages) {
    size /= radix;
    frequency += step * (place / size);
    place %= size;
    step *= radix;
  }
  return frequency;
}

// The least radix · 2^a at or above n.
int64_t least_of_radix(int64_t radix, int64_t n) {
  int64_t size = 2 * radix;
  while (size < n) size *= 2;
  return size;
}

void fill(Plan& plan, int64_t size, int64_t radix) {
  for (int64_t k = 0; k < radix; ++k) append_root(plan.roots, k, radix);
  const std::vector<int64_t> stages = stages_of(size, radix);
  int64_t n = size;
  for (size_t s = 0; s + 1 < stages.size(); n /= stages[s++]) {
    for (int64_t j = 0; j < n / stages[s]; ++j) {
      for (int64_t r = 1; r < stages[s]; ++r) append_root(plan.twiddles, n - j * r % n, n);
    }
  }
  plan.place.resize(static_cast<size_t>(size));
  for (int64_t place = 0; place < size; ++place) {
    plan.place[static_cast<size_t>(frequency_at(place, size, stages))] =
        static_cast<int32_t>(place);
  }
  for (int64_t k = 0; k <= size / 2; ++k) append_root(plan.turns, size - k, size);
  plan.view = {.size = size,
               .radix = radix,
               .roots = plan.roots.data(),
               .twiddles = plan.twiddles.data(),
               .place = plan.place.data(),
               .turns = plan.turns.data()};
}

}  // namespace

const FourierPlan& fourier_plan(int64_t positions) {
  int64_t size = 0, radix = 0;
  for (const int64_t r : {4, 3, 5, 7}) {
    const int64_t n = least_of_radix(r, (positions + 1) / 2);
    if (size != 0 && size <= n) continue;
    size = n;
    radix = r;
  }
  static std::mutex mutex;
  static std::map<int64_t, Plan> plans;  // four of each power of two, and each stays where it is
  const std::lock_guard lock(mutex);
  Plan& plan = plans[size];
  if (plan.view.size == 0) fill(plan, size, radix);
  return plan.view;
}

}  // namespace lra::ops::cpu
