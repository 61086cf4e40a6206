// What a protocol decides: one struct a group of options, with every key's default and bounds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attention_variants/base/fields.h"
#include "attention_variants/ops/types.h"
#include "lra/config/parameter_groups.h"
#include "lra/config/setting_values.h"
#include "lra/data/manifest.h"
#include "lra/data/objective.h"

namespace lra {

inline Check below_one() {
  return {[](const json& v) { return v.get<double>() >= 0 && v.get<double>() < 1; },
          "at least 0 and less than 1"};
}

inline constexpr double kLargestBatch = 1'000'000'000;  // samples; sums of sizes stay integers

struct InputOptions {
  int64_t length = 2048;  // N; longer samples are cut, shorter ones padded
  InputMask mask = InputMask::length;
  int64_t cut = 0;  // tokens kept of a sample, before it is padded to `length`; 0 = `length`
  Brackets brackets = Brackets::keep;  // ListOps; dropped before `cut`, as by a tokeniser that
                                       // knows letters and digits alone
  Colours colours = Colours::grey;     // of Image's data

  Reading reading() const { return {.brackets = brackets, .colours = colours}; }
  /// Tokens of a sample that are read.
  int64_t kept() const { return cut == 0 ? length : std::min(length, cut); }

  template <class Fields>
  void fields(Fields& f) {
    f("length", length, at_least(1));
    f("mask", mask);
    f("cut", cut, at_least(0));
    f("brackets", brackets);
    f("colours", colours);
  }
};

struct ModelOptions {
  BlockKind block = BlockKind::transformer;
  int64_t layers = 2;
  int64_t width = 64;          // D
  int64_t heads = 2;           // H
  int64_t head_dim = 32;       // d
  int64_t feed_forward = 128;  // 0 = none
  int64_t classifier = 128;    // hidden width of the head
  double dropout = 0.1;        // 0 = off
  DropoutKind dropout_kind = DropoutKind::plain;
  Gate gate = Gate::half_glu1;
  Encoding encoder = Encoding::embedding;
  double pixel_mean = 0, pixel_sd = 1;
  std::vector<double> pixel_means, pixel_sds;  // in their place, by channel; empty: they are of all
  double embedding_sd = 0.02;
  Positions positions = Positions::learned;
  double position_sd = 0.02;  // of learned positions at the start
  double rotary_base =
      10000;  // of rotary ones: the pair of columns 2i turns by base^(-2i/head_dim)
  NormPlacement norm = NormPlacement::pre;
  NormKind norm_kind = NormKind::layer;
  BatchStatistics batch_statistics = BatchStatistics::real;
  double batch_momentum = 0.1;  // share of a batch in the running statistics, as torch has it
  Padding padding = Padding::masked;
  Pooling pooling = Pooling::mean;
  MeanOver mean_over = MeanOver::real;
  ops::PaddedRows padded_rows = ops::PaddedRows::zero;
  ClsMask cls_mask = ClsMask::real;
  Head head = Head::mlp;
  PairForm pair = PairForm::interact;
  Init init = Init::torch;
  bool attention_bias = true;  // of the projections to q, k, v and back
  ops::Gelu gelu = ops::Gelu::exact;
  double norm_eps = 1e-5;
  AttentionDtype attention_dtype = AttentionDtype::model;
  bool causal = false;  // a position reads none after it

  /// AttentionContext::rotary_base.
  double rotation() const { return positions == Positions::rotary ? rotary_base : 0; }

  template <class Fields>
  void fields(Fields& f) {
    f("block", block);
    f("layers", layers, at_least(1));
    f("width", width, at_least(1));
    f("heads", heads, at_least(1));
    f("head_dim", head_dim, at_least(1));
    f("feed_forward", feed_forward, at_least(0));
    f("classifier", classifier, at_least(1));
    f("dropout", dropout, between(0, 0.999));
    f("dropout_kind", dropout_kind);
    f("gate", gate);
    f("encoder", encoder);
    f("pixel_mean", pixel_mean, between(0, 1));
    f("pixel_sd", pixel_sd, more_than(0));
    f("pixel_means", pixel_means, numbers(between(0, 1)));
    f("pixel_sds", pixel_sds, numbers(more_than(0)));
    f("embedding_sd", embedding_sd, more_than(0));
    f("positions", positions);
    f("position_sd", position_sd, more_than(0));
    f("rotary_base", rotary_base, at_least(1));
    f("norm", norm);
    f("norm_kind", norm_kind);
    f("batch_statistics", batch_statistics);
    f("batch_momentum", batch_momentum, between(1e-6, 1));
    f("padding", padding);
    f("pooling", pooling);
    f("mean_over", mean_over);
    f("padded_rows", padded_rows);
    f("cls_mask", cls_mask);
    f("head", head);
    f("pair", pair);
    f("init", init);
    f("attention_bias", attention_bias);
    f("gelu", gelu);
    f("norm_eps", norm_eps, more_than(0));
    f("attention_dtype", attention_dtype);
    f("causal", causal);
  }
};

/// AdamW (decoupled weight decay).
struct OptimizerOptions {
  double lr = 1e-4;  // the schedule's factor
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
  double clip_norm = 0;         // of the whole gradient; 0 = off
  double clip_value = 0;        // of each of its values, before clip_norm; 0 = off
  json groups = json::array();  // of parameters that differ: lra/config/parameter_groups.h

  template <class Fields>
  void fields(Fields& f) {
    f("lr", lr, more_than(0));
    f("beta1", beta1, below_one());
    f("beta2", beta2, below_one());
    f("eps", eps, more_than(0));
    f("weight_decay", weight_decay, at_least(0));
    f("clip_norm", clip_norm, at_least(0));
    f("clip_value", clip_value, at_least(0));
    f("groups", groups, list_of_objects());
  }
};

/// The learning rate over the steps, numbered from 0; see harness/steps/schedule.h for the
/// formulas.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::one_cycle;
  int64_t warmup = 1000;       // steps; 0 = none
  double start_divisor = 25;   // one_cycle begins at lr / start_divisor and ends at
  double final_divisor = 1e4;  // lr / start_divisor / final_divisor
  // Where beta1_high > 0, beta1 runs against the learning rate between the two, as torch's
  // OneCycleLR does unless told not to.
  double beta1_low = 0, beta1_high = 0;
  int64_t decay_every = 20000;  // steps; of kind step
  double decay_factor = 0.5;
  double power = 1;  // of kind power

  template <class Fields>
  void fields(Fields& f) {
    f("kind", kind);
    f("warmup", warmup, at_least(0));
    f("start_divisor", start_divisor, at_least(1));
    f("final_divisor", final_divisor, at_least(1));
    f("beta1_low", beta1_low, below_one());
    f("beta1_high", beta1_high, below_one());
    f("decay_every", decay_every, at_least(1));
    f("decay_factor", decay_factor, between(0, 1));
    f("power", power, more_than(0));
  }
};

struct TrainingOptions {
  int64_t steps = 5000;
  int64_t batch = 32;
  int64_t micro_batch =
      0;  // gradients are summed over parts of this size; 0 = the whole batch at once
  int64_t evaluate_every = 50;   // steps; dev is also evaluated after the last one
  int64_t checkpoint_every = 0;  // steps; 0 = with every evaluation
  int64_t log_every = 10;        // steps
  TrainingDtype dtype = TrainingDtype::any;
  Objective objective = Objective::classify;
  double masked_share = 0;  // of tokens that objective masked hides; 0 = the task's own share

  template <class Fields>
  void fields(Fields& f) {
    f("steps", steps, at_least(1));
    f("batch", batch, between(1, kLargestBatch));
    f("micro_batch", micro_batch, at_least(0));
    f("evaluate_every", evaluate_every, at_least(1));
    f("checkpoint_every", checkpoint_every, at_least(0));
    f("log_every", log_every, at_least(1));
    f("dtype", dtype);
    f("objective", objective);
    f("masked_share", masked_share, between(0, 1));
  }
};

struct EvaluationOptions {
  int64_t batch = 32;
  bool drop_last = false;  // leave out the last incomplete batch, as some released code does
  DevSplit dev = DevSplit::dev;
  // Only evaluations after this share of the steps choose the checkpoint that is tested, and the
  // last one always may: 0 = all do, 1 = the last alone.
  double select_after = 0;
  bool test = true;  // the best checkpoint is tested; false: the test split is not even opened

  template <class Fields>
  void fields(Fields& f) {
    f("batch", batch, between(1, kLargestBatch));
    f("drop_last", drop_last);
    f("dev", dev);
    f("select_after", select_after, between(0, 1));
    f("test", test);
  }
};

/// Everything that a protocol decides, by task.
struct Settings {
  InputOptions input;
  ModelOptions model;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  TrainingOptions training;
  EvaluationOptions evaluation;
  ops::Kernels kernels = ops::Kernels::fused;
  Execution execution = Execution::automatic;
  // Of a run before this one, which starts from its weights: the settings that differ there, by
  // group; empty = there is none.
  json pretraining = json::object();

  template <class Fields>
  void fields(Fields& f) {
    f("input", input);
    f("model", model);
    f("optimizer", optimizer);
    f("schedule", schedule);
    f("training", training);
    f("evaluation", evaluation);
    f("kernels", kernels);
    f("execution", execution);
    f("pretraining", pretraining, json_object());
  }
};

/// With the rates of optimizer.groups that are factors of optimizer.lr, as runs have them.
inline Settings with_rates(Settings settings) {
  settings.optimizer.groups = with_rates(settings.optimizer.groups, settings.optimizer.lr);
  return settings;
}

}  // namespace lra
