// Of lra_cuda.so: what the program asks of LibTorch's CUDA part, which it is not linked with.
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>

/// The cudaStream_t that LibTorch has made current on a device.
extern "C" void* lra_cuda_current_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

/// The least compute capability of the devices of this process, 80 for 8.0; 0 where there are none.
extern "C" int lra_cuda_oldest_capability() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 0;
  int oldest = 1000;
  for (int device = 0; device < devices; ++device) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    oldest = std::min(oldest, 10 * major + minor);
  }
  return oldest;
}
