#include "harness/host/pages.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>

namespace lra::host {
namespace {

#ifdef __GLIBC__
uintptr_t end_of_heap() { return reinterpret_cast<uintptr_t>(sbrk(0)); }

// A page of the heap is huge where it is asked for before its first use.
std::atomic<uintptr_t> asked_up_to = end_of_heap();
#endif

}  // namespace

void keep_freed_pages() {
#ifdef __GLIBC__
  constexpr int kGrowth =
      32 << 20;                   // bytes; of a page that is cut off by the heap's end none is huge
  mallopt(M_MMAP_MAX, 0);         // what is mapped by itself is unmapped when it is freed
  mallopt(M_TRIM_THRESHOLD, -1);  // never
  mallopt(M_TOP_PAD, kGrowth);
#endif
}

void ask_for_huge_pages() {
#ifdef __GLIBC__
  const uintptr_t end = end_of_heap();
  uintptr_t begin = asked_up_to.load(std::memory_order_relaxed);
  if (end <= begin || !asked_up_to.compare_exchange_strong(begin, end)) return;
  const auto page = static_cast<uintptr_t>(getpagesize());
  begin = (begin + page - 1) / page * page;
  // Refused by systems that have none.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

std::string huge_pages_setting(const std::filesystem::path& root) {
  std::ifstream in(root / "sys/kernel/mm/transparent_hugepage/enabled");
  std::string word;
  while (in >> word) {
    if (word.size() > 2 && word.front() == '[') return word.substr(1, word.size() - 2);
  }
  return "";
}

}  // namespace lra::host
