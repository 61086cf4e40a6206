// The learning-rate schedule: one cycle, linear, as torch's OneCycleLR(anneal_strategy="linear")
// computes it.
#pragma once

#include <algorithm>

#include "lra/protocol.h"

namespace lra {

struct SchedulePoint {
  double lr, beta1;
};

/// What step number `step` (from 0) of `steps` runs with.
inline SchedulePoint schedule_at(int64_t step, int64_t steps, const OptimizerOptions& optimizer,
                                 const ScheduleOptions& schedule) {
  const double low = optimizer.lr / schedule.start_divisor;
  const double last = low / schedule.final_divisor;
  const double top = static_cast<double>(schedule.warmup - 1);  // the step at which lr is highest
  const double end = static_cast<double>(steps - 1);
  const double at = static_cast<double>(step);
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

}  // namespace lra
