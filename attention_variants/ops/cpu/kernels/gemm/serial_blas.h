// One thread for every product inside a parallel region of our own.
#pragma once

// MKL, the BLAS of LibTorch's wheels, starts threads of its own inside a region (measured: products
// of 64 x 32 x 256 take 2 to 10 times as long there). Other BLAS have no such function.
extern "C" [[gnu::weak]] int MKL_Set_Num_Threads_Local(int threads);

namespace lra {

/// While it lives, BLAS runs on the calling thread alone, called from that thread.
class SerialBlas {
 public:
  SerialBlas() : before_(MKL_Set_Num_Threads_Local != nullptr ? MKL_Set_Num_Threads_Local(1) : 0) {}
  ~SerialBlas() {
    if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(before_);
  }
  SerialBlas(const SerialBlas&) = delete;
  SerialBlas& operator=(const SerialBlas&) = delete;

 private:
  int before_;
};

}  // namespace lra
