// Attentions that are classes of Python: what the program asks of the Python that hosts it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attention_variants/outside_module.h"

namespace lra {

/// Thrown where a class of Python is needed and Python does not host this process. No
/// std::exception, so that it reaches the program's front, which starts it anew under Python.
struct NeedsPython {};

/// The Python that hosts this process (harness/python). Options name a class: `file`, a path that
/// ends in .py or the name of an importable module; `class`; perhaps `sha256`, which the source
/// must then have, and kImportsHash; all others are keywords of its constructor. To be called
/// without the GIL.
class PythonHost {
 public:
  virtual ~PythonHost() = default;

  /// Loads the source and checks class, keywords and hashes; returns the options with those of the
  /// source and, where there are any, of the modules from beside it. Throws Error, with the user's
  /// own traceback where their code raised.
  virtual json check(const json& options) = 0;

  /// Makes an object of the class. Its constructor is offered dim, heads, head_dim, max_length,
  /// dropout and seed by name, and draws from generators seeded with context.seed, which are put
  /// back. Throws as check().
  virtual std::unique_ptr<OutsideModule> make(const json& options,
                                              const AttentionContext& context) = 0;

  /// Whether the class says that the samples of a batch depend on each other. Throws as check().
  virtual bool couples_batch(const json& options) = 0;

  /// The source that the class stands in. Throws as check().
  virtual std::string source(const json& options) = 0;

  /// The states of Python's `random` and of NumPy's legacy generator, where it is loaded: uint8.
  virtual torch::Tensor random_state() = 0;
  virtual void set_random_state(const torch::Tensor& state) = 0;
  virtual void seed(uint64_t seed) = 0;

  /// Inside a handler: throws Error where what was caught is an exception that Python code raised
  /// in a backward pass, and returns otherwise.
  virtual void rethrow_raised() = 0;
};

/// The name of attentions that are classes of Python.
inline constexpr const char* kPythonAttention = "python";

/// The option that holds the SHA-256 of each module that a source imports from beside it, by its
/// path there, as {"helper.py": "…"}; absent where it imports none.
inline constexpr const char* kImportsHash = "imports_sha256";

/// Null where Python does not host this process.
PythonHost* python_host();
/// The same for an attention of that name; throws NeedsPython in place of null. Nothing for others.
void need_python_for(const std::string& attention);
void set_python_host(PythonHost* host);

/// torch's generators on all devices, and Python's.
void seed_generators(uint64_t seed);

/// loss.backward(gradient), where functions may be Python's.
void run_backward(const torch::Tensor& loss, const torch::Tensor& gradient = {});
/// The gradients of `inputs` alone, undefined where the loss does not depend on one; likewise.
std::vector<torch::Tensor> run_gradients(const torch::Tensor& loss,
                                         const std::vector<torch::Tensor>& inputs,
                                         const torch::Tensor& gradient = {});

}  // namespace lra
