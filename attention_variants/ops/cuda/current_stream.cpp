// Of lra_cuda.so: what the program asks of LibTorch's CUDA part, which it is not linked with.
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>

/// The cudaStream_t that LibTorch has made current on a device.
extern "C" void* lra_cuda_current_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

namespace {

// The least value of an attribute of the devices of this process; 0 where there are none.
int least(cudaDeviceAttr attribute) {
  int devices = 0, found = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return 0;
  for (int device = 0; device < devices; ++device) {
    int value = 0;
    if (cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) return 0;
    found = device == 0 ? value : std::min(found, value);
  }
  return found;
}

}  // namespace

/// The least major compute capability of the devices of this process; 0 where there are none.
extern "C" int lra_cuda_oldest_capability() { return least(cudaDevAttrComputeCapabilityMajor); }

/// The bytes of shared memory that a block may have on each of them.
extern "C" int lra_cuda_shared_bytes() { return least(cudaDevAttrMaxSharedMemoryPerBlockOptin); }
