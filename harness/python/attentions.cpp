// Attentions for Python: as layers, and held against the contract.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include "attention_variants/python_host.h"
#include "attention_variants/registry.h"
#include "harness/overview/check_attention.h"
#include "harness/python/bindings.h"
#include "harness/python/native_module.h"

namespace lra::python {
namespace {

namespace py = pybind11;
using unlocked = py::call_guard<py::gil_scoped_release>;

using Layer = NativeModule<Attention>;

// A dropout that the attention would not look at.
void check_dropout(const AttentionSpec& attention, double dropout) {
  const AttentionEntry& entry = attention_entry(attention.name);
  if (dropout == 0 || entry.info.model_dropout) return;
  std::string instead = "leave it out";
  if (entry.effective_options(attention.options).contains("dropout")) {
    AttentionSpec own = attention;
    own.options["dropout"] = dropout;
    instead = fmt::format("its own is an option: '{}'", own.text());
  }
  throw UsageError(
      fmt::format("{} does not read dropout={}; {}", attention.name, dropout, instead));
}

Layer make_layer(const std::string& attention, int64_t dim, int64_t heads, int64_t head_dim,
                 int64_t max_length, double dropout, bool bias, uint64_t seed, int64_t layer,
                 bool causal) {
  const AttentionContext context = {.width = dim,
                                    .heads = heads,
                                    .head_dim = head_dim,
                                    .max_length = max_length,
                                    .seed = seed,
                                    .dropout = dropout,
                                    .bias = bias,
                                    .layer = layer,
                                    .causal = causal};
  const AttentionSpec spec = parse_attention(attention);
  check_dropout(spec, dropout);
  check_causal_options(spec, causal);
  return {make_attention(spec, context)};
}

std::string check(const std::string& attention, const std::string& own_class, int64_t dim,
                  int64_t heads, int64_t head_dim, const std::string& protocol,
                  const std::string& task, bool causal, const std::string& device) {
  CheckRequest request = {.device = device,
                          .protocol = protocol,
                          .task = task,
                          .heads = heads,
                          .head_dim = head_dim,
                          .width = dim,
                          .causal = causal};
  request.attention =
      own_class.empty()
          ? parse_attention(attention)
          : AttentionSpec{kPythonAttention, {{"file", attention}, {"class", own_class}}};
  return check_attention(request).record().dump();
}

}  // namespace

void bind_attentions(py::module_& module) {
  py::class_<Layer>(module, "Attention")
      .def(py::init(&make_layer), py::kw_only(), py::arg("attention"), py::arg("dim"),
           py::arg("heads"), py::arg("head_dim"), py::arg("max_length"), py::arg("dropout"),
           py::arg("bias"), py::arg("seed"), py::arg("layer"), py::arg("causal"), unlocked())
      .def("tensors", &Layer::tensors)
      .def("train", &Layer::train, unlocked())
      .def("options", [](const Layer& layer) { return layer.module->options().dump(); })
      .def("drawn_tables", [](const Layer& layer) { return layer.module->tables(); })
      .def("tables_from", [](const Layer& layer) { return layer.module->tables_from(); })
      .def(
          "forward",
          [](Layer& layer, const torch::Tensor& x, const torch::Tensor& mask) {
            return layer.module->forward(x, mask);
          },
          unlocked())
      .def(
          "attend",
          [](Layer& layer, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
             const torch::Tensor& mask) { return layer.module->attend(q, k, v, mask); },
          unlocked());
  module.def("check", &check, py::kw_only(), py::arg("attention"), py::arg("own_class"),
             py::arg("dim"), py::arg("heads"), py::arg("head_dim"), py::arg("protocol"),
             py::arg("task"), py::arg("causal"), py::arg("device"), unlocked());
}

}  // namespace lra::python
