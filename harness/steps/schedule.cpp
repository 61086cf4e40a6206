#include "harness/steps/schedule.h"

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

// Half a cosine from 1 at 0 to 0 at 1.
double half_cosine(double part) { return 0.5 * (1 + std::cos(std::numbers::pi * part)); }

// Of those that end with the run: what `lr` is multiplied by.
double ending_factor(double at, double steps, const ScheduleOptions& schedule) {
  const double warmup = static_cast<double>(schedule.warmup), rest = steps - warmup;
  const bool late = schedule.kind == ScheduleKind::cosine_late;
  if (late && at == 0) return 1;
  if (late) at -= 1;
  const bool rising = at < warmup;
  if (late || schedule.kind == ScheduleKind::cosine_offset)
    return rising ? (at + 1) / warmup : half_cosine(std::min(at, rest) / rest);
  if (schedule.kind == ScheduleKind::cosine_end)
    return rising ? at / warmup : half_cosine((at - warmup) / rest);
  const double low = 1 / schedule.start_divisor;
  return rising ? low + (1 - low) * std::pow(at / warmup, schedule.power) : (steps - at) / rest;
}

}  // namespace

SchedulePoint schedule_at(int64_t step, int64_t steps, const OptimizerOptions& optimizer,
                          const ScheduleOptions& schedule) {
  const double at = static_cast<double>(step);
  switch (schedule.kind) {
    case ScheduleKind::one_cycle:
      return one_cycle(at, steps, optimizer, schedule);
    case ScheduleKind::cosine_end:
    case ScheduleKind::cosine_offset:
    case ScheduleKind::cosine_late:
    case ScheduleKind::power:
      return {optimizer.lr * ending_factor(at, static_cast<double>(steps), schedule),
              optimizer.beta1};
    default:
      break;
  }

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
