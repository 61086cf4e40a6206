#include "harness/python/python_modules.h"

#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include <string>

namespace lra::python {
namespace {

namespace py = pybind11;

// The Python part, harness/python/lra/_modules.py. Never destroyed: at the end of the process there
// may be no interpreter to give it back to.
py::module_& functions() {
  static auto* module = new py::module_(py::module_::import("lra._modules"));
  return *module;
}

// Ctrl-C: what called us from Python raises it at its end (interrupts_told of _errors.py).
bool note_interrupt(const py::error_already_set& error) {
  const bool interrupt = error.matches(PyExc_KeyboardInterrupt);
  if (interrupt) functions().attr("interrupt")();
  return interrupt;
}

// What Python raised, as one of our errors; its text is whole. To be called with the GIL.
[[noreturn]] void throw_as_ours(const py::error_already_set& error) {
  const std::string text = py::str(error.value());
  if (error.matches(functions().attr("OutOfMemory")))
    TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  if (error.matches(functions().attr("WrongUse"))) throw UsageError(text);
  if (error.matches(functions().attr("Refused"))) throw Error(text);
  note_interrupt(error);  // in our own Python code
  throw Error(std::string("lra's own Python code failed: ") + error.what());
}

// work() with the GIL, its exceptions as ours.
template <class Work>
auto with_python(Work work) {
  const py::gil_scoped_acquire gil;
  try {
    return work();
  } catch (const py::error_already_set& error) {
    throw_as_ours(error);
  }
}

// The same of our own functions that may be called twice: what Ctrl-C came in is done all the same.
template <class Work>
auto uninterrupted(Work work) {
  const py::gil_scoped_acquire gil;
  for (;;) {
    try {
      return work();
    } catch (const py::error_already_set& error) {
      if (!note_interrupt(error)) throw_as_ours(error);
    }
  }
}

// An object of the user's class.
class PythonModule : public OutsideModule {
 public:
  explicit PythonModule(py::object made) : made_(std::move(made)), call_(made_.attr("call")) {}
  ~PythonModule() override {
    const py::gil_scoped_acquire gil;
    call_ = py::object();
    made_ = py::object();
  }
  PythonModule(const PythonModule&) = delete;
  PythonModule& operator=(const PythonModule&) = delete;

  bool takes_heads() const override {
    return with_python([&] { return made_.attr("takes_heads")().cast<bool>(); });
  }

  bool length_invariant() const override {
    return with_python([&] { return made_.attr("length_invariant")().cast<bool>(); });
  }

  std::vector<OutsideTensor> tensors() const override {
    return with_python([&] {
      std::vector<OutsideTensor> found;
      for (const py::handle item : made_.attr("tensors")()) {
        const auto [path, tensor, trained] =
            item.cast<std::tuple<std::string, torch::Tensor, bool>>();
        found.push_back({path, tensor, trained});
      }
      return found;
    });
  }

  torch::Tensor call(const std::vector<torch::Tensor>& inputs) override {
    return with_python([&] {
      return inputs.size() == 2
                 ? call_(inputs[0], inputs[1]).cast<torch::Tensor>()
                 : call_(inputs[0], inputs[1], inputs[2], inputs[3]).cast<torch::Tensor>();
    });
  }

  void train(bool on) override {
    with_python([&] { made_.attr("train")(on); });
  }

 private:
  py::object made_, call_;
};

// Text with bytes as they are: a generator's state, a source.
torch::Tensor bytes_tensor(const std::string& text) {
  torch::Tensor bytes = torch::empty({static_cast<int64_t>(text.size())}, torch::kUInt8);
  std::copy(text.begin(), text.end(), reinterpret_cast<char*>(bytes.data_ptr<uint8_t>()));
  return bytes;
}

class Host : public PythonHost {
 public:
  json check(const json& options) override {
    return with_python(
        [&] { return json::parse(functions().attr("check")(options.dump()).cast<std::string>()); });
  }

  std::unique_ptr<OutsideModule> make(const json& options,
                                      const AttentionContext& context) override {
    const json offered = {{"dim", context.width},         {"heads", context.heads},
                          {"head_dim", context.head_dim}, {"max_length", context.max_length},
                          {"dropout", context.dropout},   {"seed", context.seed},
                          {"causal", context.causal}};
    return with_python([&]() -> std::unique_ptr<OutsideModule> {
      return std::make_unique<PythonModule>(
          functions().attr("make")(options.dump(), offered.dump()));
    });
  }

  bool couples_batch(const json& options) override {
    return with_python(
        [&] { return functions().attr("couples_batch")(options.dump()).cast<bool>(); });
  }

  std::string source(const json& options) override {
    return with_python([&] {
      return functions().attr("source")(options.dump()).cast<py::bytes>().cast<std::string>();
    });
  }

  torch::Tensor random_state() override {
    return uninterrupted(
        [&] { return bytes_tensor(functions().attr("random_state")().cast<std::string>()); });
  }

  void set_random_state(const torch::Tensor& state) override {
    const torch::Tensor whole = state.cpu().contiguous();
    const std::string text(reinterpret_cast<const char*>(whole.data_ptr<uint8_t>()),
                           static_cast<size_t>(whole.numel()));
    uninterrupted([&] { functions().attr("set_random_state")(text); });
  }

  void seed(uint64_t seed) override {
    uninterrupted([&] { functions().attr("seed_generators")(seed); });
  }

  void rethrow_raised() override {
    const py::gil_scoped_acquire gil;
    // LibTorch's engine leaves what a Python function raised where Python looks for it.
    if (PyErr_Occurred() == nullptr) return;
    const py::error_already_set raised;  // takes it
    std::string text;
    try {
      text = functions()
                 .attr("raised_in_backward")(raised.value(), raised.trace())
                 .cast<std::string>();
    } catch (const py::error_already_set& error) {
      throw_as_ours(error);
    }
    throw Error(text);
  }
};

}  // namespace

void install_host() {
  static Host host;
  functions();
  set_python_host(&host);
}

}  // namespace lra::python
