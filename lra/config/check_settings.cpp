#include "lra/config/check_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "attention_variants/registry.h"
#include "lra/config/parameter_groups.h"
#include "lra/data/task.h"

namespace lra {
namespace {

// Not done unasked: a recipe changes by nothing that its record does not name.
std::string shorter_warmup(int64_t steps) {
  if (steps < 2) return "";
  return ", as --set training.steps=" + std::to_string(steps) +
         " --set schedule.warmup=" + std::to_string(std::max<int64_t>(steps / 5, 1));
}

// Of a model's blocks, norms and inputs.
void check_model(const Settings& s, const Task& of) {
  const ModelOptions& m = s.model;
  if (m.positions == Positions::sinusoidal && m.width % 2 != 0) {
    throw UsageError("model.positions sinusoidal needs an even model.width, not " +
                     std::to_string(m.width));
  }
  if (m.positions == Positions::rotary && m.head_dim % 2 != 0) {
    throw UsageError("model.positions rotary needs an even model.head_dim, not " +
                     std::to_string(m.head_dim));
  }
  if (m.encoder != Encoding::embedding && !of.image) {
    throw UsageError("model.encoder " + to_string(m.encoder) + " reads pixels, which task " +
                     of.name + " has not; give embedding");
  }
  if (of.channels > 1 && (m.encoder == Encoding::embedding || s.input.mask == InputMask::nonzero)) {
    throw UsageError(
        "input.colours rgb has three values a position: it needs model.encoder linear or real, and "
        "input.mask length or none");
  }
  for (const auto& [name, values] :
       {std::pair{"pixel_means", &m.pixel_means}, {"pixel_sds", &m.pixel_sds}}) {
    if (values->empty() || std::ssize(*values) == of.channels) continue;
    throw UsageError(std::string("model.") + name + " should hold " + std::to_string(of.channels) +
                     " number(s), one a channel, or none, not " + std::to_string(values->size()));
  }
  const int64_t part = s.training.micro_batch;
  if (m.norm_kind == NormKind::batch && part > 0 && part < s.training.batch) {
    throw UsageError(
        "model.norm_kind batch takes its statistics of a whole batch: training.micro_batch should "
        "be 0, not " +
        std::to_string(part));
  }
}

// What each value alone cannot show.
void check_settings(const Settings& s) {
  const ScheduleOptions& schedule = s.schedule;
  const bool one_cycle = schedule.kind == ScheduleKind::one_cycle;
  if ((one_cycle || schedule.kind == ScheduleKind::rsqrt) && schedule.warmup < 1) {
    throw UsageError("schedule.warmup should be at least 1 where schedule.kind is " +
                     to_string(schedule.kind) + ", not " + std::to_string(schedule.warmup));
  }
  if (one_cycle && schedule.warmup >= s.training.steps) {
    throw UsageError("schedule.warmup (" + std::to_string(schedule.warmup) +
                     ") should be less than training.steps (" + std::to_string(s.training.steps) +
                     "); set both" + shorter_warmup(s.training.steps));
  }
  if (schedule.beta1_low > schedule.beta1_high) {
    throw UsageError(fmt::format(
        "schedule.beta1_low should be at most schedule.beta1_high, not {} and {}; set both",
        schedule.beta1_low, schedule.beta1_high));
  }
  if (schedule.beta1_high > 0 && !one_cycle) {
    throw UsageError(
        fmt::format("schedule.beta1_high needs schedule.kind one_cycle, not {0}; with {0} give "
                    "schedule.beta1_high=0 and schedule.beta1_low=0",
                    to_string(schedule.kind)));
  }
  const bool ends =
      schedule.kind == ScheduleKind::cosine_end || schedule.kind == ScheduleKind::cosine_offset ||
      schedule.kind == ScheduleKind::cosine_late || schedule.kind == ScheduleKind::power;
  if (ends && schedule.warmup >= s.training.steps) {
    throw UsageError("schedule.warmup (" + std::to_string(schedule.warmup) +
                     ") should be less than training.steps (" + std::to_string(s.training.steps) +
                     ") where schedule.kind is " + to_string(schedule.kind) + "; set both" +
                     shorter_warmup(s.training.steps));
  }
  parameter_groups(s.optimizer.groups);
  if (!s.evaluation.test && s.evaluation.dev == DevSplit::test) {
    throw UsageError(
        "evaluation.test false leaves the test split unread, and evaluation.dev test chooses the "
        "checkpoint by it: give evaluation.dev=dev");
  }
}

// What labels of tokens ask of the model.
void check_token_objective(const Config& config, const Task& of) {
  if (of.channels > 1)
    throw UsageError("training.objective predicts one token a position, not " +
                     std::to_string(of.channels) + " channels; give input.colours=grey");
  const ModelOptions& m = config.settings.model;
  const std::string& attention = config.attention.name;
  if (config.settings.training.objective == Objective::causal &&
      !attention_entry(attention).info.can_be_causal) {
    throw UsageError("training.objective causal: attention " + attention +
                     " has no causal form here, so that it reads what is to be predicted; give "
                     "masked, or another attention");
  }
  const InputOptions& input = config.settings.input;
  if (config.settings.training.objective == Objective::causal && input.kept() < 2)
    throw UsageError(
        "training.objective causal predicts the next of two tokens: input.length and "
        "input.cut should leave more than 1");
  if (m.head == Head::tied && m.encoder != Encoding::embedding) {
    throw UsageError("model.head tied reads the embedding, which model.encoder " +
                     to_string(m.encoder) + " has not; give linear");
  }
}

// What a task's labels and its model ask of each other.
void check_labels(const ModelOptions& m, const Task& of) {
  const auto refuse = [&](const std::string& what) { throw UsageError(what); };
  if (of.position_labels && m.pooling == Pooling::cls)
    refuse("model.pooling cls is of tasks with a label a sample; those of " + of.name +
           " stand at positions, so that nothing is pooled");
  if (m.head == Head::tied && (!of.position_labels || of.classes != of.vocabulary))
    refuse("model.head tied needs a task whose classes are its ids; " + of.name +
           " has not; give mlp or linear");
  const bool of_one = m.pooling == Pooling::cls || m.pooling == Pooling::first;
  if (m.causal && !of.position_labels && of_one)
    refuse("model.causal leaves model.pooling " + to_string(m.pooling) +
           " one token to read, as no later one reaches it; give mean");
}

// A key of --set, and whether anything reads it here.
struct Read {
  const char* key;
  bool read;
  std::string where;  // it is
};

std::vector<Read> reads_of_model(const ModelOptions& m) {
  const bool of_batch = m.norm_kind == NormKind::batch, pixels = m.encoder != Encoding::embedding,
             gated = m.block == BlockKind::s4 || m.block == BlockKind::s5,
             gelu_head = m.head == Head::gelu || m.head == Head::mega,
             gelu_block = gated || (m.block == BlockKind::transformer && m.feed_forward > 0),
             linear_layers = gated ? m.block == BlockKind::s4 || m.gate != Gate::activation
                                   : m.feed_forward > 0,
             starts_linear = m.init == Init::mega || m.init == Init::lecun;
  const std::string is_pixels = "model.encoder is linear or real";
  return {{"model.gate", m.block == BlockKind::s5, "model.block is s5"},
          {"model.feed_forward", !gated, "model.block is transformer or mega"},
          {"model.gelu", gelu_block || gelu_head,
           "model.block is s4, s5 or transformer with a feed-forward block, or model.head gelu "
           "or mega"},
          {"model.init", !starts_linear || linear_layers || m.head != Head::tied,
           "a block has linear layers beside its attention, or model.head is not tied; only flax "
           "starts an attention's projections"},
          {"model.dropout_kind", m.dropout > 0, "model.dropout is more than 0"},
          {"model.embedding_sd", !pixels, "model.encoder is embedding"},
          {"model.position_sd", m.positions == Positions::learned, "model.positions is learned"},
          {"model.rotary_base", m.positions == Positions::rotary, "model.positions is rotary"},
          {"model.pixel_mean", pixels && m.pixel_means.empty(),
           is_pixels + " and model.pixel_means is empty"},
          {"model.pixel_sd", pixels && m.pixel_sds.empty(),
           is_pixels + " and model.pixel_sds is empty"},
          {"model.pixel_means", pixels, is_pixels},
          {"model.pixel_sds", pixels, is_pixels},
          {"model.batch_statistics", of_batch, "model.norm_kind is batch"},
          {"model.batch_momentum", of_batch, "model.norm_kind is batch"},
          {"model.mean_over", m.pooling == Pooling::mean, "model.pooling is mean"},
          {"model.cls_mask", m.pooling == Pooling::cls, "model.pooling is cls"},
          {"model.classifier", m.head != Head::linear && m.head != Head::tied,
           "model.head is mlp, gelu or mega"}};
}

// What padding that is a token like others leaves unread, to the layers or to all.
std::vector<Read> reads_of_padding(const Settings& s) {
  const bool told = s.input.mask != InputMask::none,
             masked = told && s.model.padding == Padding::masked;
  const std::string where = "input.mask tells padding",
                    to_layers = where + " and model.padding is masked";
  return {
      {"model.mean_over", told, where},
      {"model.padding", told, where},
      {"model.padded_rows", masked, to_layers},
      {"model.batch_statistics", masked, to_layers},
      {"model.cls_mask", masked && s.input.mask == InputMask::nonzero,
       "input.mask is nonzero, as a first token is real otherwise, and model.padding is masked"}};
}

// Of a run's schedule and of how much it reads.
std::vector<Read> reads_of_training(const Settings& s) {
  const ScheduleKind kind = s.schedule.kind;
  const bool one_cycle = kind == ScheduleKind::one_cycle, cycled = s.schedule.beta1_high > 0,
             step = kind == ScheduleKind::step && s.schedule.decay_every < s.training.steps,
             power = kind == ScheduleKind::power && s.schedule.warmup > 0;
  const std::string is_step =
                        "schedule.kind is step, and schedule.decay_every less than "
                        "training.steps",
                    is_power = "schedule.kind is power with a schedule.warmup";
  // A low end of 0 goes with a high one of 0: it is at most that.
  return {{"optimizer.beta1", !cycled, "schedule.beta1_high is 0"},
          {"schedule.beta1_low", cycled || s.schedule.beta1_low == 0,
           "schedule.beta1_high is more than 0"},
          {"schedule.decay_every", step, is_step},
          {"schedule.decay_factor", step, is_step},
          {"schedule.final_divisor", one_cycle, "schedule.kind is one_cycle"},
          {"schedule.start_divisor", one_cycle || power,
           "schedule.kind is one_cycle, or power with a schedule.warmup"},
          {"schedule.power", power, is_power},
          {"input.cut", s.input.cut <= s.input.length, "it is at most input.length"},
          {"training.masked_share", s.training.objective == Objective::masked,
           "training.objective is masked"}};
}

std::vector<Read> reads_of_dtype(ops::Dtype dtype) {
  return {{"model.attention_dtype", dtype == ops::Dtype::bfloat16, "--dtype is bfloat16"}};
}

std::vector<Read> reads_of_attention(const std::string& attention) {
  std::vector<std::string> uniform;
  for (const auto& entries : {attention_entries(), released_forms()}) {
    for (const AttentionEntry* entry : entries) {
      if (entry->info.uniform_padding) uniform.push_back(entry->info.name);
    }
  }
  return {{"model.padded_rows", attention_entry(attention).info.uniform_padding,
           fmt::format("the attention is one of {}", fmt::join(uniform, ", "))}};
}

// What labels at positions, or of one input, leave unread.
std::vector<Read> reads_of_labels(const Config& config) {
  const Settings& s = config.settings;
  const Task of = task(config.task, s.input.reading());
  const bool tokens = predicts_tokens(s.training.objective),
             pooled = !tokens && !of.position_labels;
  const std::string a_sample = "a label is of a whole sample, not of a position";
  return {{"model.pooling", pooled || s.model.pooling == Pooling::cls, a_sample},
          {"model.mean_over", pooled, a_sample},
          {"model.classifier", !tokens, "training.objective is classify"},
          {"model.head", !tokens || s.model.head == Head::linear || s.model.head == Head::tied,
           "training.objective is classify, or it is linear or tied"},
          {"model.pair", of.inputs == 2 && pooled, "a sample is of two inputs, as in retrieval"}};
}

}  // namespace

void check_read(const Config& config) {
  if (config.overridden.empty()) return;
  const auto check = [&](const std::vector<Read>& all, const char* hint) {
    for (const Read& one : all) {
      if (one.read || std::ranges::count(config.overridden, one.key) == 0) continue;
      throw UsageError(fmt::format("{} has an effect only where {}; {}", one.key, one.where, hint));
    }
  };
  check(reads_of_model(config.settings.model), "leave it out, or set both");
  check(reads_of_padding(config.settings), "leave it out");
  check(reads_of_training(config.settings), "leave it out, or set both");
  check(reads_of_dtype(config.dtype), "leave it out");
  check(reads_of_attention(config.attention.name), "leave it out");
  check(reads_of_labels(config), "leave it out");
}

void check_coupling(const Config& config) {
  const TrainingOptions& t = config.settings.training;
  if (t.micro_batch == 0 || t.micro_batch >= t.batch) return;
  const std::string coupling = batch_coupling(config.attention.name, config.attention_options);
  if (coupling.empty()) return;
  throw UsageError(
      fmt::format("attention {} with {} computes with the whole batch: training.micro_batch should "
                  "be 0, not {}",
                  config.attention.name, coupling, t.micro_batch));
}

void settle(Config& config) {
  Settings& s = config.settings;
  const Task of = task(config.task, s.input.reading());
  s = with_rates(std::move(s));
  if (s.training.objective == Objective::causal) s.model.causal = true;
  if (s.training.objective == Objective::masked && s.training.masked_share == 0)
    s.training.masked_share = of.masked_share;
  check_settings(s);
  check_model(s, of);
  if (predicts_tokens(s.training.objective)) {
    check_token_objective(config, of);
  } else {
    check_labels(s.model, of);
  }
}

}  // namespace lra
