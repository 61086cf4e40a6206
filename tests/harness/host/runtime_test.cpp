// What records say of the machine and the compiler.
#include "harness/host/runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>

#include "attention_variants/base/files.h"
#include "attention_variants/ops/cuda/kernel_table.h"
#include "harness/host/gpu.h"
#include "harness/host/temporary_folder.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

// On a thread of its own, since threads inherit the processors.
TEST(MachineOf, TellsTheCoresOfTheMachineFromThoseThatMayBeUsed) {
  Machine machine;
  std::thread([&machine] {
    cpu_set_t set;
    CPU_ZERO(&set);
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    int first = 0;
    while (!CPU_ISSET(first, &set)) ++first;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    machine = host::machine_of(torch::kCPU);
  }).join();
  EXPECT_EQ(machine.cores, sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_EQ(machine.usable_cores, 1);
}

// What a variable of OpenMP's, or its own mind, takes of the threads would stand in no record.
TEST(UseThreads, AreAsManyAsAreAskedFor) {
  if (omp_get_thread_limit() < 2) GTEST_SKIP() << "OpenMP may start no second thread here";
  const int before = at::get_num_threads();
  omp_set_dynamic(1);
  EXPECT_EQ(host::use_threads(2), 2);
  EXPECT_EQ(omp_get_dynamic(), 0);
  EXPECT_EQ(at::get_num_threads(), 2);
  omp_set_max_active_levels(0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(host::use_threads(2), 1) << "as many as it gives";
  EXPECT_NE(
      testing::internal::GetCapturedStderr().find("WARNING: of 2 threads OpenMP gives 1, and"),
      std::string::npos);
  EXPECT_EQ(at::get_num_threads(), 1);
  omp_set_max_active_levels(1);
  at::set_num_threads(before);
}

// Where the system starts no more, OpenMP ends the process, or hangs.
TEST(UseThreads, ThatTheSystemDoesNotStartAreOneError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs its address space";
#endif
  if (omp_get_thread_limit() < 64) GTEST_SKIP() << "OpenMP may not start as many here";
  const pid_t child = fork();
  if (child == 0) {
    rlimit memory{};
    getrlimit(RLIMIT_AS, &memory);
    memory.rlim_cur = 4 << 20;  // less than it has
    setrlimit(RLIMIT_AS, &memory);
    try {
      host::use_threads(64);
      _exit(1);
    } catch (const Error& error) {
      const bool said = std::strstr(error.what(), "of 64 threads the system starts no more than ");
      _exit(said ? 0 : 2);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(CompilerText, NamesTheCompilerThatItWas) {
  EXPECT_EQ(host::compiler_text("12.2.0"), "g++ 12.2.0");
  EXPECT_EQ(host::compiler_text("Clang 15.0.7 (https://github.com/llvm/llvm-project 8dfdcc7)"),
            "clang++ 15.0.7 (https://github.com/llvm/llvm-project 8dfdcc7)");
  EXPECT_EQ(host::compiler_text("Debian Clang 14.0.6"), "clang++ 14.0.6");
  EXPECT_EQ(host::software_json()["compiler"], host::compiler_text(__VERSION__));
}

TEST(Software, NumbersOfCudnnAreVersions) {
  EXPECT_EQ(host::cudnn_version_text(91900), "9.19.0");
  EXPECT_EQ(host::cudnn_version_text(90100), "9.1.0");
  EXPECT_EQ(host::cudnn_version_text(8902), "8.9.2");
}

// TF32 is LibTorch's own choice for convolutions, and that of some images for products.
TEST(Float32, IsKeptInProductsAndConvolutions) {
  at::Context& context = at::globalContext();
  const bool convolutions = context.allowTF32CuDNN(at::Float32Op::CONV);
  context.setAllowTF32CuDNN(true);
  context.setFloat32MatmulPrecision("high");
  host::keep_float32();
  EXPECT_FALSE(context.allowTF32CuDNN(at::Float32Op::CONV));
  EXPECT_FALSE(context.allowTF32CuBLAS());
  EXPECT_EQ(context.float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  context.setAllowTF32CuDNN(convolutions);
}

// A build in a checkout names it; another build of the same version goes on with its files.
TEST(Software, NamesTheCommitWhichKeepsNoneApart) {
  json software = host::software_json();
  if (std::system("test \"$(git -C '" LRA_SOURCE_DIR
                  "' rev-parse --show-toplevel 2>&1)\" = '" LRA_SOURCE_DIR "'") == 0) {
    const std::string commit = software.value("commit", "");
    ASSERT_GE(commit.size(), 12u);
    EXPECT_EQ(commit.substr(0, 12).find_first_not_of("0123456789abcdef"), std::string::npos);
  }
  EXPECT_EQ(host::other_software(software), "");
  software["commit"] = "another";
  EXPECT_EQ(host::other_software(software), "");
  software["lra"] = "another";
  EXPECT_NE(host::other_software(software), "");
}

TEST(FlushDenormals, IsOfTheThreadAndOfThoseThatItStarts) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "of x86 processors alone";
#endif
  // LibTorch's threads are a pool of the thread that asks for them first.
  std::thread([] {
    const auto halves_of_the_smallest = [] {
      const torch::Tensor half = torch::full({1 << 20}, std::numeric_limits<float>::min()) * 0.5;
      return (half > 0).sum().item<int64_t>();
    };
    at::globalContext().setFlushDenormal(false);
    EXPECT_EQ(host::software_json()["denormals"], "kept");
    std::thread([&] { EXPECT_EQ(halves_of_the_smallest(), 1 << 20); }).join();
    host::flush_denormals();
    EXPECT_EQ(host::software_json()["denormals"], "zero");
    EXPECT_EQ(halves_of_the_smallest(), 0);
  }).join();
}

// CUDA's runtime in a process with CUDA_VISIBLE_DEVICES=1,0 of two GPUs.
int second_then_first(char* bus, int length, int device) {
  const char* buses[] = {"0000:AF:00.0", "0000:3B:00.0"};
  if (device < 0 || device > 1) return 101;
  std::snprintf(bus, static_cast<size_t>(length), "%s", buses[device]);
  return 0;
}

TEST(GpuName, IsOfTheDeviceThatTheProcessSees) {
  const Scratch scratch;
  for (const auto& [bus, model] :
       {std::pair{"0000:3b:00.0", "NVIDIA A100"}, std::pair{"0000:af:00.0", "NVIDIA H100"}}) {
    std::filesystem::create_directories(scratch.path() / bus);
    write_file(scratch.path() / bus / "information",
               std::string("Model: \t\t ") + model + "\nIRQ:   \t\t 105\n");
  }
  const auto name = [&](int64_t index) {
    return host::gpu_name(host::gpu_bus(index, second_then_first).value_or("none"), scratch.path());
  };
  EXPECT_EQ(name(0), "NVIDIA H100");
  EXPECT_EQ(name(1), "NVIDIA A100");
  EXPECT_EQ(name(2), "unknown");
  EXPECT_EQ(host::gpu_bus(0, second_then_first), "0000:af:00.0");
  EXPECT_FALSE(host::gpu_bus(0, nullptr).has_value()) << "no runtime";
}

TEST(GpuName, IsFoundWithALongDomain) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "0000:3b:00.0");
  write_file(scratch.path() / "0000:3b:00.0" / "information", "Model: NVIDIA A100\n");
  const auto bus = host::gpu_bus(0, [](char* to, int length, int) {
    std::snprintf(to, static_cast<size_t>(length), "00000000:3B:00.0");
    return 0;
  });
  EXPECT_EQ(host::gpu_name(bus.value(), scratch.path()), "NVIDIA A100");
}

TEST(GpuDriver, IsReadFromItsFile) {
  const Scratch scratch;
  const auto version = [&](const std::string& text) {
    write_file(scratch.path() / "version", text);
    return host::gpu_driver(scratch.path() / "version");
  };
  EXPECT_EQ(
      version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 "
              "UTC 2023\nGCC version:  gcc version 12.2.0\n"),
      "535.129.03");
  EXPECT_EQ(version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release "
                    "Build  (root@builder)  Tue Sep 23 2025\n"),
            "580.95.05");
  EXPECT_EQ(version("GCC version:  gcc 12\n"), "");
  EXPECT_EQ(host::gpu_driver(scratch.path() / "none"), "");
}

// Whether the module of the kernels is loaded, with a table of functions that has no hole.
bool has_cuda_kernels() {
  const auto path = std::filesystem::path(LRA_PROGRAM).parent_path() / "lra_cuda.so";
  void* module = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  void* table = module == nullptr ? nullptr : dlsym(module, "lra_cuda_kernels");
  if (table == nullptr) return false;
  const auto get = reinterpret_cast<decltype(&lra_cuda_kernels)>(table);
  const auto* kernels = reinterpret_cast<void* const*>(get());
  const auto* end = kernels + sizeof(ops::cuda::KernelTable) / sizeof(void*);
  return std::find(kernels, end, nullptr) == end;
}

bool has_torch_cuda() { return dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD) != nullptr; }

// Whether `found` where CUDA is loaded; in a process of its own: what is loaded stays.
bool with_driver(const char* driver, bool (*found)()) {
  const pid_t child = fork();
  if (child == 0) {
    host::load_cuda(driver);
    _exit(found() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A build without CUDA brings neither, driver or not.
TEST(LoadCuda, BringsLibTorchsPartWhereThereIsADriver) {
  const bool built_with = host::cuda_version() != "off";
  EXPECT_EQ(with_driver("libnothing-of-this-name.so.1", has_torch_cuda), has_torch_cuda());
  EXPECT_EQ(with_driver("libm.so.6", has_torch_cuda), built_with);
}

TEST(LoadCuda, BringsTheKernelsWithIt) {
  const bool built_with = host::cuda_version() != "off";
  EXPECT_EQ(with_driver("libnothing-of-this-name.so.1", has_cuda_kernels), has_cuda_kernels());
  EXPECT_EQ(with_driver("libm.so.6", has_cuda_kernels), built_with);
}

TEST(TemporaryPlace, IsTheSystemsWithoutOneThatIsNamed) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "", 1);
  EXPECT_EQ(host::temporary_place(), "/tmp");
  setenv("TMPDIR", "/no/such", 1);
  EXPECT_TRUE(contains(error_text([] { host::temporary_place(); }),
                       "TMPDIR is /no/such, which is no folder that can be used"));
  unsetenv("TMPDIR");
  EXPECT_EQ(host::temporary_place(), "/tmp");
  if (before != nullptr) setenv("TMPDIR", kept.c_str(), 1);
}

}  // namespace
}  // namespace lra
