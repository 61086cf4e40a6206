#include "attention_variants/contract/invariance.h"

#include <fmt/format.h>

namespace lra::contract {
namespace {

// Each sample of a batch against itself alone.
void apart(const ContractProbe& trial, ClauseReport& f, Attention& attention,
           const torch::Tensor& mask) {
  const int64_t batch = mask.size(0);
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, mask);
    const torch::Tensor together = trial.call_real(attention, form, in);
    for (int64_t b = 0; b < batch; ++b) {
      const Inputs one{in.changed([b](const auto& t) { return t.narrow(0, b, 1); }),
                       in.mask.narrow(0, b, 1)};
      f.at_most(fmt::format("{}, N = {}: change of sample {} alone against in a batch of {}",
                            form.name(), mask.size(1), b, batch),
                difference(trial.call_real(attention, form, one), together.narrow(0, b, 1)), 1e-10);
    }
  }
}

}  // namespace

void batch_invariance(const ContractProbe& trial, ClauseReport& f) {
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, trial.samples({41, 30, 7}, 41));
    const torch::Tensor together = trial.train(form, in);
    // What is drawn anew for each sample differs in any case.
    if (difference(trial.train(form, in, /*seed=*/1), together) > 0) continue;
    const Inputs one{in.changed([](const auto& t) { return t.narrow(0, 1, 1); }),
                     in.mask.narrow(0, 1, 1)};
    // Evaluation may be right all the same, as with a batch norm.
    f.grade(Grade::fragile);
    f.at_most(form.name() + " in training: change of sample 1 alone against in a batch of 3",
              difference(trial.train(form, one), together.narrow(0, 1, 1)), 1e-10);
    f.grade(Grade::wrong);
  }
  apart(trial, f, *trial.make(), trial.samples({41, 30, 1, 7, 0, 41, 22}, 41));
  trial.far(f, [&](Attention& attention) {
    apart(trial, f, attention, first({kFarPositions, 170, 70}, kFarPositions));
  });
}

namespace {

// What stands from each of `begins` on against what stands before it.
void later_positions(const ContractProbe& trial, ClauseReport& f, Attention& attention,
                     const torch::Tensor& mask, const std::vector<int64_t>& begins,
                     torch::ScalarType type) {
  const double limit = type == torch::kDouble ? trial.exactness() : kExactInFloat32;
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, mask, type).needing_gradients();
    const Inputs others = trial.inputs(form, mask, type, /*seed=*/99);
    const int64_t along = form.attends ? 2 : 1;
    const torch::Tensor output = trial.call(attention, form, in);
    for (const int64_t from : begins) {
      const auto first_ones = [&](const torch::Tensor& t) { return t.narrow(along, 0, from); };
      Inputs later = in;
      for (size_t i = 0; i < in.leaves.size(); ++i) {
        later.leaves[i] =
            torch::cat({first_ones(in.leaves[i]).detach(),
                        others.leaves[i].narrow(along, from, mask.size(1) - from) * 10},
                       along);
      }
      const std::string what =
          fmt::format("{} in {}, positions from {} on: ", form.name(), type_name(type), from);
      f.at_most(what + "change of those before",
                difference(first_ones(trial.call(attention, form, later)), first_ones(output)),
                limit);
      const torch::Tensor again = first_ones(trial.call(attention, form, in));
      const Tensors found = gradients(weighted_sum(again), in.leaves);
      for (size_t i = 0; i < found.size(); ++i) {
        f.at_most(what + "gradient of " + form.leaves[i] + " by those before",
                  found[i].narrow(along, from, mask.size(1) - from).abs().max().item<double>(),
                  limit);
      }
    }
  }
}

}  // namespace

void causality(const ContractProbe& trial, ClauseReport& f) {
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    later_positions(trial, f, *trial.make(type), trial.samples({61, 40, 61}, 61),
                    {1, 2, 17, 48, 60}, type);
  }
  trial.far(f, [&](Attention& attention) {
    later_positions(trial, f, attention, first({kFarPositions, 170}, kFarPositions), {65, 200},
                    torch::kDouble);
  });
}

// At a length that "shape and type" has shown to be taken: "any length" is for others.
void deterministic(const ContractProbe& trial, ClauseReport& f) {
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, first({48, 30}, 48));
    const auto attention = trial.make();
    const torch::Tensor once = trial.call(*attention, form, in);
    torch::rand({3});  // the global random state is not what decides
    f.at_most(form.name() + ": change when called again",
              difference(trial.call(*attention, form, in), once), 0);
    const auto again = trial.make();
    torch::rand({3});
    f.at_most(form.name() + ": change of another with the same seed",
              difference(trial.call(*again, form, in), once), 0);
    f.at_most(form.name() + " in training: change of another with the same generators",
              difference(trial.train(form, in), trial.train(form, in)), 0);
    const torch::NoGradGuard no_grad;
    f.at_most(form.name() + ": change without gradients",
              difference(trial.call(*attention, form, in), once), trial.exactness());
    if (const auto dropping = trial.make_dropping()) {
      const torch::Tensor first_call = trial.call(*dropping, form, in);
      torch::rand({3});
      f.at_most(form.name() + ": change of an evaluation when called again, with a dropout of 0.5",
                difference(trial.call(*dropping, form, in), first_call), 0);
    }
  }
}

void non_contiguous(const ContractProbe& trial, ClauseReport& f) {
  const auto attention = trial.make();
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, first({41, 30}, 41));
    const torch::Tensor expected = trial.call(*attention, form, in);
    const auto swapped = [](const torch::Tensor& t) {
      return t.transpose(1, 2).contiguous().transpose(1, 2);
    };
    const auto spread = [](const torch::Tensor& t) {
      return torch::stack({t, t * 2}, -1).select(-1, 0);
    };
    const torch::Tensor mask =
        torch::stack({in.mask, in.mask.logical_not()}, -1).select(-1, 0);  // every second one
    f.at_most(form.name() + ": change by transposed strides",
              difference(trial.call(*attention, form, {in.changed(swapped), mask}), expected),
              trial.exactness());
    f.at_most(form.name() + ": change by strides of two",
              difference(trial.call(*attention, form, {in.changed(spread), mask}), expected),
              trial.exactness());
  }
}

void inputs_unchanged(const ContractProbe& trial, ClauseReport& f) {
  const auto attention = trial.make();
  for (const EntryPoint& form : trial.forms()) {
    const Inputs in = trial.inputs(form, trial.samples({48, 30, 0}, 48));
    const Tensors before = in.changed([](const auto& t) { return t.clone(); });
    const torch::Tensor mask = in.mask.clone();
    const torch::NoGradGuard no_grad;
    trial.call(*attention, form, in);
    for (size_t i = 0; i < before.size(); ++i)
      f.that(torch::equal(in.leaves[i], before[i]), form.name() + " writes to " + form.leaves[i]);
    f.that(torch::equal(in.mask, mask), form.name() + " writes to the mask");
  }
}

}  // namespace lra::contract
