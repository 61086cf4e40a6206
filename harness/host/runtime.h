// Where a run runs: device, threads, number type; and what the records say of machine and software.
#pragma once

#include <string>
#include <string_view>

#include "attention_variants/base/fields.h"
#include "attention_variants/torch.h"
#include "results/records/machine.h"
#include "results/records/status.h"

namespace lra::host {

/// "cpu", "cuda" or "cuda:n"; throws UsageError on another word, Error where there is no such
/// device.
torch::Device parse_device(const std::string& text);

/// "cuda" of "cuda:1".
std::string device_kind(const std::string& device);

/// 0 = all processors this process may use. Sets the number of LibTorch's threads and returns it:
/// fewer, with a warning, where OpenMP's variables limit them. Starts none, as of a process whose
/// children compute. Throws UsageError on a number out of range.
int64_t set_threads(int64_t threads);

/// The same, and starts them. Throws Error where the system does not.
int64_t use_threads(int64_t threads);

/// Denormal numbers as zero in the processor's arithmetic, of LibTorch's own operators too: of this
/// thread and of those that it starts from now on. docs/operators.md says why.
void flush_denormals();

/// Products and convolutions of float32 in float32 on a GPU, where LibTorch would round the
/// operands of convolutions to TF32, and of products where TORCH_ALLOW_TF32_CUBLAS_OVERRIDE is set.
void keep_float32();

/// cuDNN's number for a version, as "9.19.0".
std::string cudnn_version_text(int64_t number);

/// Waits for a GPU's work; nothing on a CPU.
void synchronize(torch::Device device);

/// The status of a cell that ended in this error: oom, unsupported (the variant cannot
/// take the shape, or these options together) or crash.
Status status_of(const std::exception& error);

/// The exit status of the program for an error: 128 + its number after a signal (Ctrl-C: 130,
/// SIGTERM: 143, SIGHUP: 129), 2 for a UsageError, else 1.
int exit_status(const std::exception& error);

/// Standard input, output and error that are closed become /dev/null, before another file takes
/// their numbers and what is printed.
void open_standard_files();

/// end_without_destructors(), but with LibTorch's CUDA part std::exit(): profilers of GPUs report
/// there.
[[noreturn]] void end_process(int status);

/// The machine line of a record.
Machine machine_of(torch::Device device);
/// "g++ 12.2.0" or "clang++ 14.0.6", of what a compiler defines as __VERSION__.
std::string compiler_text(std::string_view version);
/// The commit of the checkout that this program was built from, 12 digits, with "-dirty" behind it
/// where tracked files differed; "" where it was none.
const char* source_commit();
/// {"lra", "torch", "compiler", "cpu_capability", "kernels", "denormals"}, "cuda" and "cudnn",
/// those of LibTorch, where it found a GPU, "gpu_kernels": "LibTorch's" where it runs none of
/// this program, and "commit" where it is known.
json software_json();

/// The first part of a record's `software` that is another here, as "kernels avx2, which is
/// baseline here"; "" where there is none. Parts that one of them lacks are not compared, nor are
/// commits.
std::string other_software(const json& software);

}  // namespace lra::host
