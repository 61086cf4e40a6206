// Runs and records for Python.
#include <pybind11/stl.h>

#include "attention_variants/base/text.h"
#include "attention_variants/ops/autocast.h"
#include "attention_variants/python_host.h"
#include "harness/attend/predict.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/python/bindings.h"
#include "harness/python/native_module.h"
#include "harness/training/checkpoint.h"
#include "harness/training/evaluation.h"
#include "harness/training/open_run.h"
#include "results/store/store.h"
#include "results/tables/accuracy_table.h"
#include "results/tables/fidelity_table.h"
#include "results/tables/profile_table.h"
#include "results/where/table.h"

namespace lra::python {
namespace {

namespace py = pybind11;
using unlocked = py::call_guard<py::gil_scoped_release>;

// Buffers and generators are at its end as they were, however that is reached.
class Rewound {
 public:
  Rewound(Model& model, torch::Device device) : pass_(model, device) {}
  ~Rewound() {
    try {
      pass_.rewind();
    } catch (const std::exception&) {  // to throw here would end the process
    }
  }
  Rewound(const Rewound&) = delete;
  Rewound& operator=(const Rewound&) = delete;

 private:
  RepeatablePass pass_;
};

// Or told of earlier, in Python code that the library called: interrupts_told() raises that.
bool signalled_in_python() {
  const py::gil_scoped_acquire locked;
  return PyErr_CheckSignals() != 0 ||
         py::module_::import("lra._errors").attr("is_interrupted")().cast<bool>();
}

// Ctrl-C, which Python hears of when it is asked, ends `work` with what it raises.
template <class Work>
auto interruptible(const Work& work) {
  const host::SignalPoll poll(signalled_in_python);
  try {
    return work();
  } catch (const host::Interrupted&) {
    const py::gil_scoped_acquire locked;
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    throw;
  }
}

struct Run : NativeModule<Model> {
  OpenedRun opened;
  torch::Device device;

  static Run open(const std::string& run, const std::string& data, const std::string& checkpoint,
                  const std::string& device_name) {
    const auto kind = parse_name<CheckpointKind>(checkpoint);
    if (!kind) throw UsageError("checkpoint should be best or last, not '" + checkpoint + "'");
    const torch::Device device = host::parse_device(device_name);
    const KeptRandomStates kept(device);
    OpenedRun opened = open_run(run, data, *kind, device);
    opened.model->eval();
    opened.model->take_any_mask();
    return {{opened.model}, std::move(opened), device};
  }

  // In the number type of the run; a caller's own autocast stays where that is float32.
  torch::Tensor logits(const torch::Tensor& tokens, const torch::Tensor& mask) const {
    if (opened.config.dtype == ops::Dtype::float32) return module->forward(tokens, mask);
    Batch batch;
    batch.tokens = tokens;
    batch.mask = mask;
    return logits_of(*module, batch, torch::Tensor(), opened.config.dtype, device);
  }

  // (correct, count, mean loss), and the predictions' CSV.
  std::tuple<int64_t, int64_t, double, std::string> evaluate(const std::string& split) {
    const host::Quiet quiet;
    // What an attention draws is the same each time, and the caller's generators stay as they are.
    const Rewound rewound(*opened.model, device);
    const ops::AutocastScope own = ops::AutocastScope::off(device);  // whatever the caller's
    seed_generators(opened.config.seed);
    const Evaluation made = interruptible([&] {
      return lra::evaluate(*opened.model, evaluation_split(opened.data, opened.config, split),
                           opened.config, device, split);
    });
    return {made.correct, made.count, made.loss, made.predictions_csv()};
  }
};

// CSV of what the model says of samples, one a line.
std::string predict_lines(Run& run, const std::vector<std::string>& lines) {
  const host::Quiet quiet;
  const Rewound rewound(*run.opened.model, run.device);
  const ops::AutocastScope own = ops::AutocastScope::off(run.device);
  return lines_csv(interruptible([&] { return lra::predict(run.opened, lines, run.device); }));
}

using Rows = std::vector<std::vector<std::string>>;

// (headers, rows, "path: reason" of files that could not be used) of the records of a kind.
std::tuple<std::vector<std::string>, Rows, std::vector<std::string>> records(
    const std::vector<std::string>& paths, const std::string& kind) {
  const Records found = find_records({paths.begin(), paths.end()});
  Table table;
  if (kind == "runs") {
    table = results_long(found.results);
  } else if (kind == "profiles") {
    table = memory_time_long(found.profiles, {});
  } else if (kind == "fidelity") {
    table = fidelity_long(found.fidelity);
  } else if (kind == "where") {
    table = where_long(found.where);
  } else {
    throw UsageError("kind should be runs, profiles, fidelity or where, not '" + kind + "'");
  }
  std::vector<std::string> headers, bad;
  for (const Column& column : table.columns) headers.push_back(column.header);
  for (const BadFile& file : found.bad) bad.push_back(file.path + ": " + file.reason);
  return {headers, table.rows, bad};
}

}  // namespace

void bind_runs(py::module_& module) {
  py::class_<Run>(module, "Run")
      .def(py::init(&Run::open), unlocked())
      .def("tensors", &Run::tensors)
      .def("train", &Run::train, unlocked())
      // Else it is a token of its own: an image's black pixel, the filler of a recall task.
      .def("zero_is_padding",
           [](const Run& run) {
             const InputMask mask = run.opened.config.settings.input.mask;
             const Task& of = task(run.opened.config.task);
             return mask == InputMask::nonzero ||
                    (mask == InputMask::length && !of.image && !of.position_labels);
           })
      .def("step", [](const Run& run) { return run.opened.at.step; })
      .def(
          "forward",
          [](Run& run, const torch::Tensor& tokens, const torch::Tensor& mask) {
            return run.logits(tokens, mask);
          },
          unlocked())
      .def("evaluate", &Run::evaluate, unlocked())
      .def("predict", &predict_lines, unlocked());
  module.def("records", &records, unlocked());
}

}  // namespace lra::python
