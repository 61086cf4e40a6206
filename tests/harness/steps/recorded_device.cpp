#include "tests/harness/steps/recorded_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <unordered_map>

namespace lra {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::HPU;
constexpr c10::DispatchKey kKey = c10::DispatchKey::HPU;

DeviceRecord* g_record = nullptr;
std::recursive_mutex g_mutex;  // the backward pass has a thread of its own

// One call as it was made, its tensors on the device.
struct RecordedCall {
  c10::OperatorHandle op;
  torch::jit::Stack inputs, outputs;
};

// What stood in memory that was there before a recording, so that it can be put back.
struct Recorder {
  std::vector<RecordedCall> calls;
  std::unordered_map<const void*, std::pair<torch::Tensor, torch::Tensor>> before;  // and a copy
  std::set<const void*> fresh;  // storages of the recording
};
Recorder* g_recorder = nullptr;

bool on_device(const torch::Tensor& t) { return t.defined() && t.device().type() == kType; }

const void* base_of(const torch::Tensor& t) { return t.storage().data(); }

// The same memory as a tensor of the host; of none, a tensor that may be resized.
torch::Tensor host_view(const torch::Tensor& t) {
  if (base_of(t) == nullptr)
    return torch::empty_strided(t.sizes(), t.strides(), torch::TensorOptions(t.scalar_type()));
  const auto bytes = static_cast<int64_t>(t.storage().nbytes());
  torch::Tensor memory =
      at::from_blob(t.storage().mutable_data(), {bytes}, torch::TensorOptions(torch::kByte));
  return torch::empty({0}, torch::TensorOptions(t.scalar_type()))
      .set_(memory.storage(), t.storage_offset(), t.sizes(), t.strides());
}

// Of one call: tensors of the device as the host's, and back.
class Translation {
 public:
  explicit Translation(bool mixed) : mixed_(mixed) {}

  c10::IValue to_host(const c10::IValue& value) {
    if (value.isTensor()) return to_host(value.toTensor());
    if (value.isTensorList()) {
      c10::List<torch::Tensor> list;
      for (const torch::Tensor& t : value.toTensorVector()) list.push_back(to_host(t));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<torch::Tensor>> list;
      for (const std::optional<torch::Tensor>& t : value.toOptionalTensorList().vec())
        list.push_back(t ? std::optional(to_host(*t)) : std::nullopt);
      return list;
    }
    if (value.isDevice()) return c10::Device(c10::kCPU);
    return value;
  }

  c10::IValue to_device(const c10::IValue& value) {
    if (value.isTensor()) return to_device(value.toTensor());
    if (value.isTensorList()) {
      c10::List<torch::Tensor> list;
      for (const torch::Tensor& t : value.toTensorVector()) list.push_back(to_device(t));
      return list;
    }
    return value;
  }

  bool made_view() const { return made_view_; }

 private:
  torch::Tensor to_host(const torch::Tensor& t) {
    if (!on_device(t)) {
      TORCH_CHECK(mixed_ || !t.defined() || t.dim() == 0, "a tensor of the host, ", t.toString(),
                  " of ", t.sizes(), ", in an operator of a device");
      if (t.defined()) given_.emplace(t.unsafeGetTensorImpl(), t);
      return t;
    }
    const torch::Tensor view = host_view(t);
    given_.emplace(view.unsafeGetTensorImpl(), t);
    if (base_of(view) != nullptr) owners_.emplace(base_of(view), t);
    return kept_.emplace_back(view);
  }

  torch::Tensor to_device(const torch::Tensor& t) {
    if (!t.defined()) return t;
    const auto same = given_.find(t.unsafeGetTensorImpl());
    if (same != given_.end()) return with_new_memory(same->second, t);
    const auto owner = base_of(t) == nullptr ? owners_.end() : owners_.find(base_of(t));
    made_view_ = made_view_ || owner != owners_.end();
    c10::Storage storage = owner != owners_.end() ? owner->second.storage() : adopt(t);
    torch::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(kKey), t.dtype());
    result.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
    return result;
  }

  // `there`, after its host's tensor may have been given other memory or sizes.
  static torch::Tensor with_new_memory(const torch::Tensor& there, const torch::Tensor& host) {
    c10::TensorImpl* const impl = there.unsafeGetTensorImpl();
    if (!on_device(there) || (base_of(there) == base_of(host) && there.sizes() == host.sizes()))
      return there;
    if (base_of(there) != base_of(host)) impl->set_storage_keep_dtype(adopt(host));
    impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
    return there;
  }

  static c10::Storage adopt(const torch::Tensor& t) {
    auto* const held = new c10::Storage(t.storage());
    c10::DataPtr data(
        held->mutable_data(), held,
        [](void* storage) { delete static_cast<c10::Storage*>(storage); }, recorded_device());
    return c10::Storage(c10::Storage::use_byte_size_t(), held->nbytes(), std::move(data),
                        /*allocator=*/nullptr, /*resizable=*/false);
  }

  bool mixed_, made_view_ = false;
  std::vector<torch::Tensor> kept_;
  std::unordered_map<const c10::TensorImpl*, torch::Tensor> given_;
  std::unordered_map<const void*, torch::Tensor> owners_;
};

bool is_copy(const std::string& name) { return name == "aten::copy_"; }

// The host has to know their result, or how large it is.
bool waits(const std::string& name, const torch::jit::Stack& inputs) {
  static const std::set<std::string> kNames = {"aten::_local_scalar_dense",
                                               "aten::nonzero",
                                               "aten::masked_select",
                                               "aten::equal",
                                               "aten::_unique2",
                                               "aten::unique_dim",
                                               "aten::unique_consecutive",
                                               "aten::bincount",
                                               "aten::linalg_eigh",
                                               "aten::linalg_pinv",
                                               "aten::linalg_svd",
                                               "aten::_linalg_eigh",
                                               "aten::_linalg_svd",
                                               "aten::repeat_interleave"};
  if (kNames.contains(name)) return true;
  if (!name.starts_with("aten::index") || inputs.size() < 2 || !inputs[1].isOptionalTensorList())
    return false;
  for (const std::optional<torch::Tensor>& t : inputs[1].toOptionalTensorList().vec()) {
    if (t && t->defined() && t->scalar_type() == torch::kBool) return true;
  }
  return false;
}

// A step's own copies between host and device cannot be recorded, nor what waits.
void note(const std::string& name, const torch::jit::Stack& inputs) {
  if (waits(name, inputs)) {
    TORCH_CHECK(g_recorder == nullptr, name, " in a recording");
    if (g_record != nullptr) g_record->add_wait(name);
  }
  if (!is_copy(name)) return;
  const bool to = on_device(inputs[0].toTensor()), from = on_device(inputs[1].toTensor());
  if (to == from) return;
  TORCH_CHECK(g_recorder == nullptr, "a copy between host and device in a recording");
  if (g_record != nullptr) g_record->add_copy(/*out=*/!to);
}

// What a recording will overwrite is kept.
void keep_before(const c10::OperatorHandle& op, const torch::jit::Stack& inputs) {
  const auto keep = [](const torch::Tensor& t) {
    if (!on_device(t) || base_of(t) == nullptr || g_recorder->fresh.contains(base_of(t))) return;
    if (g_recorder->before.contains(base_of(t))) return;
    const torch::Tensor memory =
        at::from_blob(t.storage().mutable_data(), {static_cast<int64_t>(t.storage().nbytes())},
                      torch::TensorOptions(torch::kByte));
    g_recorder->before.emplace(base_of(t), std::pair(t, memory.clone()));
  };
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].alias_info() == nullptr || !arguments[i].alias_info()->isWrite()) continue;
    if (inputs[i].isTensor()) keep(inputs[i].toTensor());
    if (inputs[i].isTensorList()) {
      for (const torch::Tensor& t : inputs[i].toTensorVector()) keep(t);
    }
  }
}

torch::jit::Stack call_on_host(const c10::OperatorHandle& op, const torch::jit::Stack& inputs,
                               Translation& translation) {
  torch::jit::Stack stack;
  for (const c10::IValue& value : inputs) stack.push_back(translation.to_host(value));
  op.callBoxed(stack);
  return stack;
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::scoped_lock lock(g_mutex);
  const at::AutoDispatchBelowADInplaceOrView guard;
  const size_t count = op.schema().arguments().size();
  const torch::jit::Stack inputs(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const std::string& name = op.schema().name();
  note(name, inputs);
  if (g_recorder != nullptr) keep_before(op, inputs);
  Translation translation(is_copy(name));
  torch::jit::Stack outputs;
  for (const c10::IValue& value : call_on_host(op, inputs, translation))
    outputs.push_back(translation.to_device(value));
  torch::jit::drop(*stack, count);
  stack->insert(stack->end(), outputs.begin(), outputs.end());
  const bool launches = !translation.made_view() && name.find("empty") == std::string::npos;
  if (launches && g_record != nullptr) g_record->add_launch(name);
  if (g_recorder == nullptr) return;
  for (const c10::IValue& value : outputs) {
    if (!value.isTensor() || !on_device(value.toTensor()) || translation.made_view()) continue;
    const void* const base = base_of(value.toTensor());
    if (!g_recorder->before.contains(base)) g_recorder->fresh.insert(base);
  }
  if (launches) g_recorder->calls.push_back({op, inputs, outputs});
}

// The results of a call, made again, go where they were.
void put(const c10::IValue& result, const c10::IValue& place) {
  if (result.isTensorList()) {
    const auto results = result.toTensorVector(), places = place.toTensorVector();
    for (size_t i = 0; i < results.size(); ++i) put(results[i], places[i]);
  }
  if (!result.isTensor() || !result.toTensor().defined()) return;
  const torch::Tensor there =
      on_device(place.toTensor()) ? host_view(place.toTensor()) : place.toTensor();
  if (base_of(there) != base_of(result.toTensor())) there.copy_(result.toTensor());
}

class RecordedGraph final : public StepGraph {
 public:
  void warm_up(const std::function<void()>& work) override {
    ++graph_counts().warm_ups;
    work();
  }

  void capture(const std::function<void()>& work) override {
    ++graph_counts().captures;
    Recorder recorder;
    g_recorder = &recorder;
    const torch::Tensor random = at::globalContext().defaultGenerator(c10::kCPU).get_state();
    try {
      work();
    } catch (...) {
      put_back(recorder, random);
      throw;
    }
    put_back(recorder, random);
    calls_ = std::move(recorder.calls);
  }

  void replay() override {
    ++graph_counts().replays;
    const at::AutoDispatchBelowADInplaceOrView guard;
    for (const RecordedCall& call : calls_) {
      Translation translation(is_copy(call.op.schema().name()));
      const torch::jit::Stack results = call_on_host(call.op, call.inputs, translation);
      for (size_t i = 0; i < results.size(); ++i) put(results[i], call.outputs[i]);
    }
  }

 private:
  static void put_back(Recorder& recorder, const torch::Tensor& random) {
    g_recorder = nullptr;
    for (auto& [base, kept] : recorder.before) {
      at::from_blob(kept.first.storage().mutable_data(), kept.second.sizes(),
                    torch::TensorOptions(torch::kByte))
          .copy_(kept.second);
    }
    at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
    generator.set_state(random);
  }

  std::vector<RecordedCall> calls_;
};

// What LibTorch asks of a device beside its operators: there is one, with one stream.
struct HostGuard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device exchangeDevice(c10::Device) const override { return recorded_device(); }
  c10::Device getDevice() const override { return recorded_device(); }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, recorded_device()); }
};

struct HPUHooks final : at::HPUHooksInterface {
  explicit HPUHooks(at::HPUHooksArgs) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  // Seeded with the others; operators draw from the CPU's.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
    return generator;
  }
};
using at::HPUHooksArgs;
using at::HPUHooksRegistry;
using at::RegistererHPUHooksRegistry;
REGISTER_HPU_HOOKS(HPUHooks);  // LibTorch looks for that name

C10_REGISTER_GUARD_IMPL(HPU, HostGuard);

TORCH_LIBRARY_IMPL(_, HPU, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

// What LibTorch would take apart into others, where a GPU has a kernel of its own.
TORCH_LIBRARY_IMPL(aten, HPU, library) {
  for (const char* name :
       {"copy_", "native_layer_norm", "_foreach_norm.Scalar", "_foreach_mul_.Tensor",
        "_foreach_clamp_min_.Scalar", "_foreach_clamp_max_.Scalar", "_foreach_copy_"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace

torch::Device recorded_device() { return {kType, 0}; }

DeviceRecord::DeviceRecord() {
  TORCH_CHECK(g_record == nullptr, "one record of the device at a time");
  g_record = this;
}

DeviceRecord::~DeviceRecord() { g_record = nullptr; }

void DeviceRecord::add_launch(const std::string& name) {
  ++launches_;
  ++calls_[name];
}

std::unique_ptr<StepGraph> make_recorded_graph() { return std::make_unique<RecordedGraph>(); }

GraphCounts& graph_counts() {
  static GraphCounts counts;
  return counts;
}

}  // namespace lra
