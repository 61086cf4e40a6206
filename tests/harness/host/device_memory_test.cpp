// Memory of devices other than the CPU, asked through a stand-in for their allocator.
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include "attention_variants/out_of_memory.h"
#include "harness/host/memory.h"
#include "harness/training/cost_meter.h"

namespace lra {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::MTIA;  // there is none here

// As CUDA's: it throws where it is asked before its device is used.
class LateAllocator final : public c10::DeviceAllocator {
 public:
  bool initialized() override { return used; }
  void emptyCache(c10::MempoolId_t) override { check(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override { check(); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    check();
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = 10;
    stats.allocated_bytes[0].peak = peak;
    stats.reserved_bytes[0].peak = 40;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override { check(); }
  void resetPeakStats(c10::DeviceIndex) override {
    check();
    peak = 10;
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    check();
    return {60, 100};
  }
  c10::DataPtr allocate(size_t) override { return {}; }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {}

  bool used = false;
  int64_t peak = 30;

 private:
  void check() const {
    TORCH_CHECK(used, "Allocator not initialized for device 0: did you call init?");
  }
};

TEST(DeviceMemoryTest, ADeviceThatWasNotUsedHoldsNothing) {
  static LateAllocator allocator;
  c10::SetAllocator(kType, &allocator);
  const torch::Device device(kType, 0);
  EXPECT_EQ(host::live_bytes(device), 0);
  EXPECT_EQ(host::peak_bytes(device), 0);
  EXPECT_NO_THROW(host::reset_peak_bytes(device));
  EXPECT_FALSE(host::device_memory(device));
  allocator.used = true;
  EXPECT_EQ(host::live_bytes(device), 10);
  EXPECT_EQ(host::peak_bytes(device), 30);
  host::reset_peak_bytes(device);
  EXPECT_EQ(host::peak_bytes(device), 10);
  EXPECT_EQ(host::device_memory(device)->reserved_peak, 40);
  EXPECT_EQ(host::device_memory(device)->in_use, 40);
}

TEST(DeviceMemoryTest, TheTrainingSetIsNoPartOfATrainingsPeak) {
  static LateAllocator allocator;  // 10 bytes are live
  c10::SetAllocator(kType, &allocator);
  allocator.used = true;
  CostMeter costs(torch::Device(kType, 0));
  costs.begin(/*before=*/4, /*copied=*/2);
  EXPECT_DOUBLE_EQ(costs.data_mib().value_or(0), 6.0 / host::kMiB);
  allocator.peak = 30;
  int64_t most = 0;
  costs.take_peak(most);
  EXPECT_EQ(most, 24);
  EXPECT_FALSE(CostMeter(torch::kCPU).data_mib());
}

TEST(DeviceMemoryTest, KnowsTheErrorsOfCudaForMemory) {
  for (const char* text :
       {"CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "CUDA error: out of memory (at the launch of a kernel of this program)",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cuFFT error: CUFFT_ALLOC_FAILED",
        "could not create a primitive"})
    EXPECT_TRUE(is_out_of_memory(std::runtime_error(text))) << text;
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  for (const char* text : {"CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
                           "CUDA error: an illegal memory access was encountered", "out of range",
                           "could not create a primitive descriptor for a matmul primitive"})
    EXPECT_FALSE(is_out_of_memory(std::runtime_error(text))) << text;
}

}  // namespace
}  // namespace lra
