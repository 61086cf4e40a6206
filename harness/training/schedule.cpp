#include "harness/training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lra {
namespace {

SchedulePoint one_cycle(double at, int64_t steps, const OptimizerOptions& optimizer,
                        const ScheduleOptions& schedule) {
  const double low = optimizer.lr / schedule.start_divisor;
  const double last = low / schedule.final_divisor;
  const double top = static_cast<double>(schedule.warmup - 1);  // the step at which lr is highest
  const double end = static_cast<double>(steps - 1);
  const bool rising = at <= top && top > 0;
  const double part = rising ? at / top : (end > top ? (at - top) / (end - top) : 1);
  const auto line = [part](double from, double to) { return from + (to - from) * part; };
  SchedulePoint point{rising ? line(low, optimizer.lr) : line(optimizer.lr, last), optimizer.beta1};
  if (schedule.beta1_high > 0) {
    point.beta1 = rising ? line(schedule.beta1_high, schedule.beta1_low)
                         : line(schedule.beta1_low, schedule.beta1_high);
  }
  return point;
}

}  // namespace

SchedulePoint schedule_at(int64_t step, int64_t steps, const OptimizerOptions& optimizer,
                          const ScheduleOptions& schedule) {
  const double at = static_cast<double>(step);
  if (schedule.kind == ScheduleKind::one_cycle) return one_cycle(at, steps, optimizer, schedule);

  const double warmup = static_cast<double>(schedule.warmup);
  double lr = optimizer.lr * (warmup > 0 ? std::min(1.0, at / warmup) : 1);
  if (schedule.kind == ScheduleKind::rsqrt) {
    lr /= std::sqrt(std::max(at, warmup));
  } else if (schedule.kind == ScheduleKind::cosine) {
    const double part = std::max(0.0, at - warmup) / static_cast<double>(steps);
    lr *= 0.5 * (1 + std::cos(std::numbers::pi * part));
  } else if (schedule.kind == ScheduleKind::step) {
    lr *=
        std::pow(schedule.decay_factor, std::floor(at / static_cast<double>(schedule.decay_every)));
  }
  return {lr, optimizer.beta1};
}

}  // namespace lra
