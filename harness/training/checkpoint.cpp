#include "harness/training/checkpoint.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "attention_variants/base/files.h"
#include "attention_variants/base/own_file.h"
#include "attention_variants/base/sha256.h"
#include "attention_variants/python_host.h"
#include "lra/formats/safetensors.h"

namespace lra {
namespace {

constexpr const char* kSchema = "lra.checkpoint/1";
// Of a parameter, before its name.
constexpr std::array<std::string_view, 3> kMoments = {"optimizer.exp_avg.", "optimizer.exp_avg_sq.",
                                                      "optimizer.step."};
constexpr const char* kPythonState = "random.python";  // uint8, of runs under Python

at::Generator generator_of(torch::Device device) {
  return at::globalContext().defaultGenerator(device);
}

torch::Tensor random_state(torch::Device device) {
  auto generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(torch::Device device, const torch::Tensor& state) {
  auto generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

void seed_generator(torch::Device device, uint64_t seed) {
  auto generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

// Of what the file holds, and so no seed that the run has had.
uint64_t seed_of_file(const TensorFile& file) {
  constexpr size_t kDigits = 15;  // hexadecimal: of 63 bits, as LibTorch's seeds may have
  return std::stoull(file.metadata.at("sha256").substr(0, kDigits), nullptr, 16);
}

// What a checkpoint says of its run, in this order.
constexpr std::array<const char*, 3> kSaid = {"config", "progression", "sha256"};
// Of that, where the checkpoint is of a program that writes it.
constexpr const char* kSaidDigest = "metadata_sha256";

// Over names and bytes of all tensors, in the file's order of names.
std::string tensors_sha256(const TensorFile& file) {
  std::map<std::string, torch::Tensor> sorted(file.tensors.begin(), file.tensors.end());
  Sha256 hash;
  for (const auto& [name, tensor] : sorted) {
    const torch::Tensor whole = tensor.cpu().contiguous();
    hash.add(name);
    hash.add({static_cast<const char*>(whole.data_ptr()), whole.nbytes()});
  }
  return hash.finish();
}

std::string said_sha256(const TensorFile& file) {
  Sha256 hash;
  for (const char* key : kSaid) {
    hash.add(key);
    hash.add(file.metadata.at(key));
  }
  return hash.finish();
}

}  // namespace

void assign_tensor(torch::Tensor to, const torch::Tensor& from, const std::string& name,
                   const std::string& path) {
  if (from.sizes() != to.sizes() || from.scalar_type() != to.scalar_type()) {
    throw Error(path + ": tensor " + name +
                " is not of the model's shape or type; the file belongs to another configuration");
  }
  const torch::NoGradGuard no_grad;
  to.copy_(from);
}

void save_checkpoint(const std::filesystem::path& path, const json& config, const TrainState& at,
                     Model& model, const torch::optim::AdamW* optimizer, torch::Device device) {
  TensorFile file;
  file.metadata = {
      {"schema", kSchema}, {"config", config.dump()}, {"progression", write_fields(at).dump()}};
  for (const auto& item : model.named_parameters()) {
    file.tensors.emplace_back("model." + item.key(), item.value().detach());
    if (optimizer == nullptr) continue;
    const auto state = optimizer->state().find(item.value().unsafeGetTensorImpl());
    if (state == optimizer->state().end()) continue;  // no step has reached it
    const auto& moments = static_cast<const torch::optim::AdamWParamState&>(*state->second);
    file.tensors.emplace_back("optimizer.exp_avg." + item.key(), moments.exp_avg());
    file.tensors.emplace_back("optimizer.exp_avg_sq." + item.key(), moments.exp_avg_sq());
    file.tensors.emplace_back("optimizer.step." + item.key(),
                              torch::tensor(moments.step(), torch::kInt64));
  }
  for (const auto& item : model.named_buffers())
    file.tensors.emplace_back("model." + item.key(), item.value());
  if (optimizer != nullptr) {
    file.tensors.emplace_back("random.cpu", random_state(torch::kCPU));
    if (device.is_cuda()) file.tensors.emplace_back("random.cuda", random_state(device));
    if (PythonHost* python = python_host())
      file.tensors.emplace_back(kPythonState, python->random_state());
  }
  file.metadata["sha256"] = tensors_sha256(file);
  file.metadata[kSaidDigest] = said_sha256(file);
  write_tensors(path, file, Links::replace);
}

namespace {

// Throws unless the file is a whole checkpoint.
void check_whole(const TensorFile& file, const std::string& where) {
  const auto schema = file.metadata.find("schema");
  if (schema == file.metadata.end() || schema->second != kSchema) {
    throw Error(where + " is not a checkpoint of this program (no schema " + kSchema + ")");
  }
  for (const char* key : kSaid) {
    if (!file.metadata.contains(key))
      throw Error(where + " lacks its " + key + "; it is not a complete checkpoint");
  }
  const auto damaged = [&](const char* what) {
    return Error(fmt::format(
        "{} is damaged: {} the SHA-256 that it states; restore it, or start the run over in "
        "another folder",
        where, what));
  };
  if (file.metadata.at("sha256") != tensors_sha256(file)) throw damaged("its tensors do not have");
  const auto said = file.metadata.find(kSaidDigest);
  if (said != file.metadata.end() && said->second != said_sha256(file))
    throw damaged("what it says of its run does not have");
}

void check_config(const TensorFile& file, const json& config, const std::string& where) {
  const std::string different =
      config_differences(parse_json(file.metadata.at("config"), where), config);
  if (!different.empty()) {
    throw Error(where + " belongs to another configuration (" + different +
                "); use the same options, or another --run folder");
  }
}

TrainState read_state(const TensorFile& file, const std::string& where) {
  json saved = parse_json(file.metadata.at("progression"), where);
  TrainState state;
  if (saved.is_object()) {  // what older checkpoints lack
    saved.emplace("sharing", state.sharing);
    saved.emplace("setting", state.setting);
    saved.emplace("measured_from", state.measured_from);
    saved.emplace("seconds_before", state.seconds_before);
  }
  try {
    read_own([&] { read_fields(saved, state, where); });
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw Error(where + ": " + error.what());
  }
  if (saved.size() != field_names<TrainState>().size())
    throw Error(where + " does not say all of its run's progress");
  return state;
}

}  // namespace

RandomStates::RandomStates(torch::Device device)
    : device_(device), cpu_(random_state(torch::kCPU).clone()) {
  if (device.is_cuda()) gpu_ = random_state(device).clone();
  if (PythonHost* python = python_host()) python_ = python->random_state().clone();
}

void RandomStates::put_back() const {
  set_random_state(torch::kCPU, cpu_);
  if (device_.is_cuda()) set_random_state(device_, gpu_);
  if (python_.defined()) python_host()->set_random_state(python_);
}

RepeatablePass::RepeatablePass(Model& model, torch::Device device)
    : model_(model), random_(device) {
  for (const torch::Tensor& buffer : model.buffers()) buffers_.push_back(buffer.detach().clone());
}

void RepeatablePass::rewind() const {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> now = model_.buffers();
  for (size_t i = 0; i < now.size(); ++i) torch::Tensor(now[i]).copy_(buffers_[i]);
  random_.put_back();
}

TrainState load_checkpoint(const std::filesystem::path& path, const json& config, Model& model,
                           torch::optim::AdamW* optimizer, torch::Device device) {
  const std::string where = path.string();
  const TensorFile file = read_tensors(path);
  check_whole(file, where);
  check_config(file, config, where);
  const TrainState state = read_state(file, where);
  const auto tensor = [&](const std::string& name) {
    const torch::Tensor* found = file.find(name);
    if (found == nullptr)
      throw Error(where + " lacks the tensor " + name +
                  "; it is not a complete checkpoint of this run");
    return *found;
  };

  for (const auto& item : model.named_parameters()) {
    assign_tensor(item.value(), tensor("model." + item.key()), item.key(), where);
    if (optimizer == nullptr) continue;
    // A parameter that no step has reached has none; a file that has some of them is not whole.
    const bool reached = std::ranges::any_of(kMoments, [&](std::string_view of) {
      return file.find(std::string(of) + item.key()) != nullptr;
    });
    if (!reached) continue;
    auto moments = std::make_unique<torch::optim::AdamWParamState>();
    moments->exp_avg(torch::empty_like(item.value(), torch::MemoryFormat::Contiguous));
    moments->exp_avg_sq(torch::empty_like(item.value(), torch::MemoryFormat::Contiguous));
    assign_tensor(moments->exp_avg(), tensor("optimizer.exp_avg." + item.key()), item.key(), where);
    assign_tensor(moments->exp_avg_sq(), tensor("optimizer.exp_avg_sq." + item.key()), item.key(),
                  where);
    moments->step(tensor("optimizer.step." + item.key()).item<int64_t>());
    optimizer->state()[item.value().unsafeGetTensorImpl()] = std::move(moments);
  }
  for (const auto& item : model.named_buffers())
    assign_tensor(item.value(), tensor("model." + item.key()), item.key(), where);
  if (optimizer != nullptr) {
    set_random_state(torch::kCPU, tensor("random.cpu").clone());
    if (device.is_cuda()) {
      // A run begun on a CPU has no state of a GPU's.
      const torch::Tensor* state_there = file.find("random.cuda");
      if (state_there != nullptr) {
        set_random_state(device, state_there->clone());
      } else {
        seed_generator(device, seed_of_file(file));
      }
    }
    // A run of a variant of ours, begun without Python, may go on under it.
    PythonHost* python = python_host();
    if (python != nullptr && file.find(kPythonState) != nullptr)
      python->set_random_state(tensor(kPythonState));
  }
  return state;
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  const std::string where = path.string();
  TensorFile file = read_tensors(path);
  check_whole(file, where);
  json config = parse_json(file.metadata.at("config"), where);
  if (!config.is_object()) throw Error(where + " does not say what run it is of");
  TrainState at = read_state(file, where);
  std::string digest = file.metadata.at("sha256");
  return {.sha256 = std::move(digest),
          .config = std::move(config),
          .at = std::move(at),
          .file = std::move(file)};
}

std::string state_sha256(const Model& model) {
  TensorFile state;
  for (const auto& item : model.named_parameters())
    state.tensors.emplace_back(item.key(), item.value().detach());
  for (const auto& item : model.named_buffers())
    state.tensors.emplace_back(item.key(), item.value());
  return tensors_sha256(state);
}

}  // namespace lra
