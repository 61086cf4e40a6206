// An attention of the user's own, a class of Python: python:FILE.py:Class[keyword=value] or
// python:package.module:Class. Cost: its own.
//
// The class is a torch.nn.Module. Its forward takes (q, k, v, mask) or (x, mask), as a TorchScript
// module's does (torchscript.cpp). Every layer makes an object of its own. State names are
// module.<name in the class>. See docs/python.md.
#include <fmt/format.h>

#include "attention_variants/python_host.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

struct PythonOptions {
  std::string file;        // ends in .py, or the name of an importable module
  std::string class_name;  // in it
  std::string sha256;      // of its source, 64 hexadecimal digits; given: it must have it

  template <class Fields>
  void fields(Fields& f) {
    f("file", file);
    f("class", class_name);
    f("sha256", sha256);
  }
};

PythonHost& needed_host(const json& given) {
  for (const char* key : {"file", "class"}) {
    if (!given.contains(key) || !given[key].is_string() || given[key] == "") {
      throw UsageError(
          fmt::format("attention {0} needs a class: write {0}:FILE.py:Class, or "
                      "{0}:package.module:Class",
                      kPythonAttention));
    }
  }
  need_python_for(kPythonAttention);
  return *python_host();
}

std::shared_ptr<Attention> make_python(const AttentionContext& context, const json& given) {
  PythonHost& host = needed_host(given);
  const json options = host.check(given);
  const auto text = [&](const char* key) { return given[key].get<std::string>(); };
  return make_outside_attention(
      context, host.make(options, context),
      fmt::format("{}:{}:{}", kPythonAttention, text("file"), text("class")), options);
}

AttentionEntry python_entry() {
  AttentionEntry made;
  made.info.name = kPythonAttention;
  made.info.title = "Python class";
  made.info.paper = "the user's own";
  made.info.complexity = "its own";
  made.info.state = "module.<name in the class>";
  made.info.can_be_causal = true;  // where its class says so
  made.info.why_unrotated = "what its class makes of queries and keys is its own";
  made.option_names = field_names<PythonOptions>();
  made.option_names.push_back(kImportsHash);
  made.default_options = write_fields(PythonOptions{});
  made.effective_options = [](const json& given) { return needed_host(given).check(given); };
  made.make = make_python;
  made.coupling = [](const json& given) {
    return needed_host(given).couples_batch(given) ? "lra_couples_batch = True" : "";
  };
  return made;
}

[[maybe_unused]] const bool python_registered = register_attention(python_entry());

}  // namespace
}  // namespace lra
