// The checks, a file a subject: each throws CheckEnd, or what its work throws.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/selfcheck/check.h"

namespace lra::selfcheck {

// ---- machine.cpp --------------------------------------------------------------------------------

/// Measures the roofline of the device in float32.
void measure_machine(const CheckSubject& subject, CheckReport& report);

/// x, probability -> x with elements dropped, by one number of LibTorch's default CPU generator.
using DropoutFunction = std::function<torch::Tensor(const torch::Tensor&, double)>;

/// Which elements `drop` keeps of tensors on the device, against Philox's numbers one by one.
void check_dropout_bits(const CheckSubject& subject, CheckReport& report);
void check_dropout_bits(torch::Device device, const DropoutFunction& drop, CheckReport& report);

// ---- agreement.cpp ------------------------------------------------------------------------------

/// The clauses of `lra check` on the device, with the sizes of the default protocol. As there a
/// clause fails where it is graded wrong.
void check_contract(const CheckSubject& subject, CheckReport& report);

/// attend() and forward() on the device with own kernels, against LibTorch's operators on a CPU in
/// float64, of the same rounded inputs and parameters: outputs and all gradients. In bfloat16 by
/// autocast.
void check_parity_float64(const CheckSubject& subject, CheckReport& report);
void check_parity_float32(const CheckSubject& subject, CheckReport& report);
void check_parity_bfloat16(const CheckSubject& subject, CheckReport& report);

// ---- training.cpp -------------------------------------------------------------------------------

/// A model in training mode on the device against LibTorch's operators on a CPU: the same dropouts
/// give the same logits.
void check_dropout(const CheckSubject& subject, CheckReport& report);

/// Training steps without dropout on the device with own kernels, against LibTorch's operators on
/// a CPU: the logits after them.
void check_steps(const CheckSubject& subject, CheckReport& report);

/// Training steps as a graph of the device against the same steps without one. `graph` and `eager`
/// are the settings of the two.
void check_graph(const CheckSubject& subject, CheckReport& report);
void check_graph(const CheckSubject& subject, const std::vector<std::string>& graph,
                 const std::vector<std::string>& eager, CheckReport& report);

/// Steps on a CPU, on the device and on a CPU again, from checkpoint to checkpoint, against as many
/// on a CPU: the same bits where the device is one.
void check_resume(const CheckSubject& subject, CheckReport& report);

// ---- costs.cpp ----------------------------------------------------------------------------------

/// The memory that the variant accounts for, against what the allocator counts, and that a call
/// leaves none behind.
void check_memory(const CheckSubject& subject, CheckReport& report);

/// Times attend() and a training step of the model, and holds the arithmetic against the roofline.
void check_speed(const CheckSubject& subject, CheckReport& report);

// ---- check.cpp ----------------------------------------------------------------------------------

/// As records name it, with its effective options; throws UsageError on unknown ones.
AttentionRecord attention_record(const AttentionSpec& attention);

}  // namespace lra::selfcheck
