// The learning rate over the steps of a run.
//
// With lr, warmup, ... of the configuration, step s from 0, n steps in all and w(s) = min(1, s /
// warmup), or 1 without a warm-up:
//   one_cycle  linear from lr / start_divisor up to lr at step warmup - 1, then linear down to
//              lr / start_divisor / final_divisor at step n - 1: torch's
//              OneCycleLR(anneal_strategy="linear")
//   rsqrt      lr w(s) / sqrt(max(s, warmup)); it is highest at s = warmup: lr / sqrt(warmup)
//   constant   lr w(s)
//   cosine     lr w(s) (1 + cos(pi p)) / 2 with p = max(0, s - warmup) / n: half a period of the
//              cosine is n steps long, so its end, which is 0, lies warmup steps behind the last
//   step       lr w(s) decay_factor^floor(s / decay_every)
//   cosine_end lr s / warmup, from s = warmup on lr (1 + cos(pi p)) / 2 with
//              p = (s - warmup) / (n - warmup): transformers' get_cosine_schedule_with_warmup, S4
//   cosine_offset  lr (s + 1) / warmup, from s = warmup on lr (1 + cos(pi p)) / 2 with
//              p = min(s, n - warmup) / (n - warmup): the cosine does not begin anew after the
//              warm-up, and the last `warmup` steps have lr 0
//   cosine_late  lr at step 0, then what cosine_offset has a step before: lindermanlab/S5 sets
//              a rate behind the step that it is computed of (train_helpers.py, train_epoch)
//   power      from lr / start_divisor by (s / warmup)^power up to lr at s = warmup, then linear
//              down, lr (n - s) / (n - warmup): Mega (fairseq/optim/lr_scheduler/
//              linear_decay_schedule.py)
// rsqrt, constant, cosine and step are the factors of LRA's released code
// (lra_benchmarks/utils/train_utils.py, create_learning_rate_scheduler); with a warm-up their first
// step has lr 0.
#pragma once

#include "lra/config/protocol.h"

namespace lra {

struct SchedulePoint {
  double lr, beta1;
};

/// What step number `step` (from 0) of `steps` runs with.
SchedulePoint schedule_at(int64_t step, int64_t steps, const OptimizerOptions& optimizer,
                          const ScheduleOptions& schedule);

}  // namespace lra
