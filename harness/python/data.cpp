// Prepared data for Python.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include "harness/host/memory.h"
#include "harness/python/bindings.h"
#include "lra/data/task.h"

namespace lra::python {
namespace {

namespace py = pybind11;
using unlocked = py::call_guard<py::gil_scoped_release>;

void refuse_position_labels(const Task& task) {
  if (!task.position_labels) return;
  throw UsageError(
      fmt::format("{0} has its labels at positions, and a Dataset has one a sample; lra train "
                  "--task {0} trains on it, lra.load_run() opens what it made",
                  task.name));
}

// Colours are those of the data.
std::optional<Reading> reading_of(const std::string& brackets) {
  const auto wanted = parse_name<Brackets>(brackets);
  if (!wanted) throw UsageError("brackets should be keep or drop, not '" + brackets + "'");
  if (*wanted == Brackets::keep) return std::nullopt;
  return Reading{.brackets = *wanted};
}

struct Data {
  Task task;
  PreparedData data;
  Split split;

  Data(const std::string& folder, const std::string& name, const std::string& split_name,
       const std::string& brackets, bool check_hash)
      : task(lra::task(name, reading_of(brackets).value_or(Reading{}))),
        data(open_data(folder, name, /*check_hashes=*/false, reading_of(brackets))),
        split(data.split(split_name)) {
    refuse_position_labels(task);
    if (check_hash) data.check_hash(split_name);
  }

  int64_t valid(int64_t index) const {
    const int64_t at = index < 0 ? index + split.size() : index;
    if (at < 0 || at >= split.size())
      throw py::index_error(fmt::format("sample {} of {}", index, split.size()));
    return at;
  }

  int64_t label(int64_t index) const { return split.label(valid(index)); }

  /// The tokens of each input, uint8 or uint16: copies, as the mapped file may not be written to.
  std::vector<torch::Tensor> tokens(int64_t index) const {
    std::vector<torch::Tensor> inputs;
    for (int64_t i = 0; i < split.inputs(); ++i)
      inputs.push_back(split.tokens(valid(index), i).clone());
    return inputs;
  }

  std::string rendered(int64_t index, int64_t input) const {
    if (input < 0 || input >= split.inputs())
      throw py::index_error(fmt::format("input {} of {}", input, split.inputs()));
    index = valid(index);
    std::vector<int64_t> wide(static_cast<size_t>(split.length(index, input)));
    split.copy(index, input, static_cast<int64_t>(wide.size()), wide.data());
    return task.render(std::vector<uint16_t>(wide.begin(), wide.end()));
  }
};

// Of a stream of its own: by its seed alone these would be the samples that `lra data prepare`
// makes with it, the first ones of the training set.
constexpr uint64_t kFresh = 0x5bd1e9955bd1e995;

// `options` by the names of `lra data prepare`'s.
void prepare(const std::string& task_name, const std::string& out, uint64_t seed, int64_t count,
             const std::map<std::string, int64_t>& numbers, const std::string& difficulty) {
  const auto check = [](const std::string& name, int64_t value) {
    const int64_t least = name == "min_length" ? 0 : 1;  // lengths lie above it
    if (value < least)
      throw UsageError(fmt::format("{} should be at least {}, not {}", name, least, value));
  };
  check("count", count);
  for (const auto& [name, value] : numbers) check(name, value);
  PrepareOptions options = {.out = out,
                            .seed = seed ^ kFresh,
                            .train = count,
                            .dev = 1,
                            .test = 1,
                            .memory = host::free_memory()};
  const std::map<std::string, int64_t*> known = {{"min_length", &options.min_length},
                                                 {"max_length", &options.max_length},
                                                 {"resolution", &options.resolution}};
  for (const auto& [name, value] : numbers) *known.at(name) = value;
  options.difficulty = difficulty;
  const Task& made = task(task_name);
  if (!made.source.empty())
    throw UsageError("task " + task_name + " cannot be generated; it is read from " + made.source);
  refuse_position_labels(made);
  // Ctrl-C, which Python hears of when it is asked.
  std::atomic<bool> stop = false;
  options.stop = &stop;
  options.progress = [&stop](int64_t, int64_t, const std::string&) {
    if (stop) return;
    const py::gil_scoped_acquire locked;
    stop = PyErr_CheckSignals() != 0;
  };
  try {
    made.prepare(options);
  } catch (const Error&) {
    const py::gil_scoped_acquire locked;
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    throw;
  }
}

}  // namespace

void bind_data(py::module_& module) {
  py::class_<Data>(module, "Data")
      .def(py::init<std::string, std::string, std::string, std::string, bool>(), unlocked())
      .def("size", [](const Data& data) { return data.split.size(); })
      .def("tokens", &Data::tokens)
      .def("label", &Data::label)
      .def("rendered", &Data::rendered)
      .def("manifest", [](const Data& data) { return data.data.manifest().to_json().dump(); })
      .def("fingerprint", [](const Data& data) { return data.data.manifest().fingerprint(); });
  module.def("prepare", &prepare, py::kw_only(), py::arg("task"), py::arg("out"), py::arg("seed"),
             py::arg("count"), py::arg("numbers"), py::arg("difficulty"), unlocked());
}

}  // namespace lra::python
