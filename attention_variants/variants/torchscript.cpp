// An attention of the user's own from a file: a TorchScript module saved from Python
// (torch.jit.script(module).save("my.pt")), named torchscript:my.pt. Cost: its own.
//
// The number of arguments of its forward decides what it is:
//   forward(q, k, v, mask): the attention itself, [B,H,N,d] and mask [B,N] bool (true = a token) ->
//     [B,H,N,d] of q's type; it gets the four projections that every other attention has.
//   forward(x, mask): a whole layer, x [B,N,D] -> [B,N,D] of x's type, projections included.
// Every layer loads its own copy. Parameters start as they were saved, whatever the seed, and
// train; those saved with requires_grad=False, and buffers, are kept and moved but not trained.
// Their state names are module.<name in the script>.
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "attention_variants/base/files.h"
#include "attention_variants/out_of_memory.h"
#include "attention_variants/outside_module.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

constexpr const char* kName = "torchscript";

struct TorchScriptOptions {
  std::string file;    // path, with no comma and no bracket
  std::string sha256;  // of the file's bytes, 64 hexadecimal digits; given: the file must have it

  template <class Fields>
  void fields(Fields& f) {
    f("file", file);
    f("sha256", sha256);
  }
};

std::string where_of(const TorchScriptOptions& options) {
  return std::string(kName) + ":" + options.file;
}

// What a message of TorchScript's says, in one sentence: the line after a traceback, else the
// first, without the advice that follows.
std::string said(const std::exception& error) {
  std::istringstream in(error.what());
  std::string text;
  for (std::string line; std::getline(in, line);) {
    if (text.empty() || line.find("Error: ") != std::string::npos) text = line;
  }
  return text.substr(0, text.find(". "));
}

struct LoadedScript {
  torch::jit::Module module;
  TorchScriptOptions options;  // with the SHA-256 of the bytes that were loaded
  size_t inputs = 0;           // 4: q, k, v, mask; 2: x, mask
};

// How many tensors forward takes; throws Error on a signature that is neither of the two.
size_t check_signature(const torch::jit::Module& module, const std::string& where) {
  const std::string wanted =
      "its forward should take the tensors (q, k, v, mask) or (x, mask) and return one tensor";
  const auto method = module.find_method("forward");
  if (!method) throw Error(fmt::format("{}: {}, and it has no forward", where, wanted));
  const c10::FunctionSchema& schema = method->function().getSchema();
  std::vector<std::string> given;
  bool tensors = true;
  for (size_t i = 1; i < schema.arguments().size(); ++i) {  // 0 is self
    const c10::Argument& argument = schema.arguments()[i];
    tensors &= argument.type()->kind() == c10::TypeKind::TensorType;
    given.push_back(argument.name() + ": " + argument.type()->annotation_str());
  }
  const bool returns = schema.returns().size() == 1 &&
                       schema.returns()[0].type()->kind() == c10::TypeKind::TensorType;
  if (!tensors || !returns || (given.size() != 4 && given.size() != 2)) {
    throw Error(fmt::format(
        "{}: {}; it has ({}) -> {}", where, wanted, fmt::join(given, ", "),
        schema.returns().empty() ? "None" : schema.returns()[0].type()->annotation_str()));
  }
  return given.size();
}

LoadedScript load_script(TorchScriptOptions options) {
  if (options.file.empty()) {
    throw UsageError(
        fmt::format("attention {0} needs a file saved by torch.jit.script(module).save(FILE); "
                    "write {0}:FILE",
                    kName));
  }
  const std::string where = where_of(options);
  if (options.file.find_first_of(",[]") != std::string::npos)
    throw UsageError(where + ": a file's path may hold no comma and no bracket");
  std::error_code missing;
  if (!std::filesystem::is_regular_file(options.file, missing))
    throw Error(where + ": there is no such file");
  std::ifstream in(options.file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) throw Error(where + ": the file cannot be read");
  const std::string found = sha256(bytes);
  if (!options.sha256.empty() && options.sha256 != found) {
    throw Error(
        fmt::format("{}: the file has SHA-256 {}, not the {} that was asked for; it has "
                    "changed, put the old one back or start anew",
                    where, found, options.sha256));
  }
  options.sha256 = found;
  LoadedScript loaded{{}, options, 0};
  try {
    std::istringstream stream(bytes);
    loaded.module = torch::jit::load(stream, torch::kCPU);
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    throw Error(
        fmt::format("{}: the file is no TorchScript file ({}); save one with "
                    "torch.jit.script(module).save(FILE)",
                    where, said(error)));
  }
  loaded.inputs = check_signature(loaded.module, where);
  return loaded;
}

// Tensors of `script` and below it that are not `known`: what stands under two names is one tensor.
void collect(const torch::jit::Module& script, const std::string& place,
             std::set<const void*>& known, std::vector<OutsideTensor>& found) {
  const auto add = [&](const auto& item, bool trained) {
    if (item.value.defined() && known.insert(item.value.unsafeGetTensorImpl()).second)
      found.push_back({place + item.name, item.value, trained});
  };
  for (const auto& item : script.named_parameters(/*recurse=*/false))
    add(item, item.value.requires_grad());
  for (const auto& item : script.named_buffers(/*recurse=*/false)) add(item, false);
  for (const auto& item : script.named_children())
    collect(item.value, place + item.name + ".", known, found);
}

class Script : public OutsideModule {
 public:
  explicit Script(LoadedScript loaded)
      : loaded_(std::move(loaded)), where_(where_of(loaded_.options)) {
    for (const torch::Tensor& buffer : loaded_.module.buffers()) buffers_.push_back(buffer);
  }

  bool takes_heads() const override { return loaded_.inputs == 4; }

  std::vector<OutsideTensor> tensors() const override {
    std::set<const void*> known;
    std::vector<OutsideTensor> found;
    collect(loaded_.module, "", known, found);
    return found;
  }

  void train(bool on) override {
    for (torch::jit::Module module : loaded_.module.modules()) {
      if (module.hasattr("training")) module.setattr("training", on);  // a frozen one has none
    }
  }

  torch::Tensor call(const std::vector<torch::Tensor>& inputs) override {
    // As written: an optimised graph is another one from the third call on, and its results differ
    // in the last bits, so that a resumed run would not be the same.
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    torch::Tensor out;
    try {
      out = loaded_.module.forward({inputs.begin(), inputs.end()}).toTensor();
    } catch (const std::exception& error) {
      const std::string text = error.what(), reason = where_ + ": " + said(error);
      // TorchScript turns every failure into one kind; the two that we tell apart stay apart.
      if (text.find("out of memory") != std::string::npos ||
          text.find("can't allocate memory") != std::string::npos) {
        TORCH_CHECK_WITH(OutOfMemoryError, false, reason);
      }
      throw Error(reason);
    }
    size_t i = 0;
    for (const auto& buffer : loaded_.module.named_buffers()) {
      if (buffer.value.is_same(buffers_.at(i++))) continue;
      throw Error(fmt::format(
          "{}: forward puts another tensor in the place of its buffer {}, and checkpoints hold the "
          "one that it was; write into that, by copy_()",
          where_, buffer.name));
    }
    return out;
  }

 private:
  LoadedScript loaded_;
  std::string where_;
  std::vector<torch::Tensor> buffers_;  // as checkpoints hold them
};

TorchScriptOptions read_options(const json& given) {
  TorchScriptOptions options;
  read_fields(given, options, std::string("attention ") + kName);
  return options;
}

std::shared_ptr<Attention> make_scripted(const AttentionContext& context, const json& given) {
  LoadedScript loaded = load_script(read_options(given));
  const TorchScriptOptions options = loaded.options;
  return make_outside_attention(context, std::make_unique<Script>(std::move(loaded)),
                                where_of(options), write_fields(options));
}

AttentionEntry torchscript_entry() {
  AttentionEntry made;
  made.info.name = kName;
  made.info.title = "TorchScript module";
  made.info.paper = "the user's own";
  made.info.complexity = "its own";
  made.info.state = "module.<name in the script>";
  made.info.why_unrotated = "what its script makes of queries and keys is its own";
  made.option_names = field_names<TorchScriptOptions>();
  made.default_options = write_fields(TorchScriptOptions{});
  made.effective_options = [](const json& given) {
    return write_fields(load_script(read_options(given)).options);
  };
  made.make = make_scripted;
  return made;
}

[[maybe_unused]] const bool torchscript_registered = register_attention(torchscript_entry());

}  // namespace
}  // namespace lra
