// What a protocol decides: one struct a group of options, with every key's default and bounds.
#pragma once

#include <cstdint>
#include <string>

#include "attention_variants/base/fields.h"

namespace lra {

struct InputOptions {
  int64_t length = 2048;  // N; longer samples are cut, shorter ones padded
  std::string mask =
      "length";  // real tokens: "length" = the first `length` ones, "nonzero" = every id but 0

  template <class Fields>
  void fields(Fields& f) {
    f("length", length, at_least(1));
    f("mask", mask, one_of({"length", "nonzero"}));
  }
};

struct ModelOptions {
  int64_t layers = 2;
  int64_t width = 64;     // D
  int64_t heads = 2;      // H
  int64_t head_dim = 32;  // d
  int64_t feed_forward = 128;
  int64_t classifier = 128;  // hidden width of the head
  double dropout = 0.1;      // 0 = off
  double embedding_sd = 0.02;
  std::string positions = "learned";  // or "sinusoidal": fixed sines and cosines
  double position_sd = 0.02;          // of learned positions at the start
  std::string norm = "pre";           // LayerNorm before attention and feed-forward; "post": after
                                      // their sum with the input, and none at the end
  std::string pooling = "mean";  // "cls": a learned vector goes before the tokens, and its output
                                 // is what the head reads
  std::string mean_over =
      "real";  // MEAN pooling divides by the real tokens, or by the padded "length"
  std::string attention_dtype =
      "model";  // "float32": attention leaves autocast, as the first released code does

  template <class Fields>
  void fields(Fields& f) {
    f("layers", layers, at_least(1));
    f("width", width, at_least(1));
    f("heads", heads, at_least(1));
    f("head_dim", head_dim, at_least(1));
    f("feed_forward", feed_forward, at_least(1));
    f("classifier", classifier, at_least(1));
    f("dropout", dropout, between(0, 0.999));
    f("embedding_sd", embedding_sd, more_than(0));
    f("positions", positions, one_of({"learned", "sinusoidal"}));
    f("position_sd", position_sd, more_than(0));
    f("norm", norm, one_of({"pre", "post"}));
    f("pooling", pooling, one_of({"mean", "cls"}));
    f("mean_over", mean_over, one_of({"real", "length"}));
    f("attention_dtype", attention_dtype, one_of({"model", "float32"}));
  }
};

/// AdamW (decoupled weight decay).
struct OptimizerOptions {
  double lr = 1e-4;  // the schedule's factor
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
  double clip_norm = 0;   // of the whole gradient; 0 = off
  double clip_value = 0;  // of each of its values, before clip_norm; 0 = off

  template <class Fields>
  void fields(Fields& f) {
    f("lr", lr, more_than(0));
    f("beta1", beta1, between(0, 0.9999999));
    f("beta2", beta2, between(0, 0.9999999));
    f("eps", eps, more_than(0));
    f("weight_decay", weight_decay, at_least(0));
    f("clip_norm", clip_norm, at_least(0));
    f("clip_value", clip_value, at_least(0));
  }
};

/// The learning rate over the steps, numbered from 0. Every kind but one_cycle begins with w(step)
/// = min(1, step / warmup); see harness/training/schedule.h for the formulas.
struct ScheduleOptions {
  std::string kind = "one_cycle";  // linear up in `warmup` steps, linear down to the end
                                   // rsqrt: lr w / sqrt(max(step, warmup)); constant: lr w
                                   // cosine: lr w times half a cosine from `warmup` on
                                   // step: lr w decay_factor^floor(step / decay_every)
  int64_t warmup = 1000;           // steps; 0 = none
  double start_divisor = 25;       // one_cycle begins at lr / start_divisor and ends at
  double final_divisor = 1e4;      // lr / start_divisor / final_divisor
  // Where beta1_high > 0, beta1 runs against the learning rate between the two, as torch's
  // OneCycleLR does unless told not to.
  double beta1_low = 0, beta1_high = 0;
  int64_t decay_every = 20000;  // steps; of kind step
  double decay_factor = 0.5;

  template <class Fields>
  void fields(Fields& f) {
    f("kind", kind, one_of({"one_cycle", "rsqrt", "cosine", "constant", "step"}));
    f("warmup", warmup, at_least(0));
    f("start_divisor", start_divisor, at_least(1));
    f("final_divisor", final_divisor, at_least(1));
    f("beta1_low", beta1_low, between(0, 0.9999999));
    f("beta1_high", beta1_high, between(0, 0.9999999));
    f("decay_every", decay_every, at_least(1));
    f("decay_factor", decay_factor, between(0, 1));
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

  template <class Fields>
  void fields(Fields& f) {
    f("steps", steps, at_least(1));
    f("batch", batch, at_least(1));
    f("micro_batch", micro_batch, at_least(0));
    f("evaluate_every", evaluate_every, at_least(1));
    f("checkpoint_every", checkpoint_every, at_least(0));
    f("log_every", log_every, at_least(1));
  }
};

struct EvaluationOptions {
  int64_t batch = 32;
  bool drop_last = false;  // leave out the last incomplete batch, as some released code does
  // "dev": the data's dev split chooses the checkpoint. "test": the test split does, and dev joins
  // train, as where code knows no dev set of its own. Its test accuracy is then a selected one.
  std::string dev = "dev";
  // Only evaluations after this share of the steps choose the checkpoint that is tested, and the
  // last one always may: 0 = all do, 1 = the last alone.
  double select_after = 0;

  template <class Fields>
  void fields(Fields& f) {
    f("batch", batch, at_least(1));
    f("drop_last", drop_last);
    f("dev", dev, one_of({"dev", "test"}));
    f("select_after", select_after, between(0, 1));
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
  std::string kernels = "fused";  // or reference: LibTorch's operators alone

  template <class Fields>
  void fields(Fields& f) {
    f("input", input);
    f("model", model);
    f("optimizer", optimizer);
    f("schedule", schedule);
    f("training", training);
    f("evaluation", evaluation);
    f("kernels", kernels, one_of({"fused", "reference"}));
  }
};

}  // namespace lra
