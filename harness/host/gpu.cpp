#include "harness/host/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <regex>
#include <string_view>

#include "attention_variants/base/error.h"
#include "attention_variants/ops/cuda/device_table.h"

namespace lra::host {

std::string cuda_version() { return LRA_CUDA_VERSION; }

bool load_cuda(const char* driver, const std::filesystem::path& file) {
  constexpr std::string_view kLibrary = LRA_TORCH_CUDA;  // "" for a LibTorch without CUDA
  if (kLibrary.empty() || dlopen(driver, RTLD_LAZY | RTLD_LOCAL) == nullptr) return false;
  if (dlopen(kLibrary.data(), RTLD_LAZY | RTLD_GLOBAL) == nullptr)
    throw Error(std::string("LibTorch's CUDA part cannot be loaded: ") + dlerror());
  ops::cuda::load_kernels(module_file(LRA_CUDA_KERNELS, file).c_str());
  return true;
}

bool has_own_gpu_kernels() { return ops::cuda::device_table(torch::kCUDA) != nullptr; }

BusOfDevice runtime_bus_of_device() {
  return reinterpret_cast<BusOfDevice>(dlsym(RTLD_DEFAULT, "cudaDeviceGetPCIBusId"));
}

std::optional<std::string> gpu_bus(int64_t index, BusOfDevice bus_of) {
  char text[32] = "";
  if (bus_of == nullptr || bus_of(text, sizeof text, static_cast<int>(index)) != 0)
    return std::nullopt;
  std::string bus = text;
  std::ranges::transform(bus, bus.begin(), [](unsigned char c) { return std::tolower(c); });
  // The driver's files write the domain with four digits, and some libraries with eight.
  const size_t domain = bus.find(':');
  if (domain != std::string::npos && domain > 4) bus.erase(0, domain - 4);
  return bus;
}

std::string gpu_name(const std::string& bus, const std::filesystem::path& gpus) {
  std::ifstream in(gpus / bus / "information");
  for (std::string line; std::getline(in, line);) {
    const size_t name = line.starts_with("Model:") ? line.find_first_not_of(" \t", 6) : line.npos;
    if (name != line.npos) return line.substr(name);
  }
  return "unknown";
}

std::string gpu_driver(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue ..."
  std::smatch found;
  return std::regex_search(line, found, std::regex(R"((^|\s)(\d+(\.\d+)+)(\s|$))")) ? found.str(2)
                                                                                    : "";
}

}  // namespace lra::host
