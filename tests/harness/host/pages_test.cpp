// Huge pages for tensors on CPUs: what the system's setting is read from, and what is asked for.
#include "harness/host/pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "harness/host/memory.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

TEST(HugePages, SettingIsTheOneInBrackets) {
  const Scratch root;
  EXPECT_EQ(host::huge_pages_setting(root.path()), "");
  const std::filesystem::path folder = root.path() / "sys/kernel/mm/transparent_hugepage";
  std::filesystem::create_directories(folder);
  write_file(folder / "enabled", "always [madvise] never\n");
  EXPECT_EQ(host::huge_pages_setting(root.path()), "madvise");
  write_file(folder / "enabled", "always madvise [never]\n");
  EXPECT_EQ(host::huge_pages_setting(root.path()), "never");
}

// The flags of the mapping that an address is in, as proc(5) has them.
std::string flags_at(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::ifstream in("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(in, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-') found = begin <= at && at < end;
    if (found && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST(HugePages, AreAskedForWhatTheHeapGrowsBy) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "memory is not of glibc's heap";
#endif
  if (host::huge_pages_setting().empty()) GTEST_SKIP() << "this system has no huge pages";
  constexpr size_t kBytes = 96 << 20;  // more than the heap has free
  host::keep_freed_pages();
  host::install_counting_allocator();
  const torch::Tensor tensor = torch::empty({kBytes}, torch::kByte);
  const auto* const middle = tensor.const_data_ptr<uint8_t>() + kBytes / 2;
  EXPECT_NE(flags_at(middle).find(" hg "), std::string::npos) << flags_at(middle);
}

}  // namespace
}  // namespace lra
