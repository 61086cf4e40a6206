#include "attention_variants/ops/diagonal_scan.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<DiagonalScanCall> kDiagonalScan[] = {{cpu::takes, cpu::run, nullptr},
                                                              {nullptr, reference::run, nullptr}};

}  // namespace

torch::Tensor diagonal_scan(Kernels asked, const DiagonalScanCall& call) {
  return run_recorded("lra::diagonal_scan", kDiagonalScan, asked, Place::of(call.u), call.shape(),
                      call);
}

int64_t diagonal_scan_flops(const DiagonalScanShape& shape, int64_t directions) {
  const int64_t projection = 4 * shape.states * shape.width;
  return shape.batch * shape.length * (projection + directions * (projection + 8 * shape.states));
}

}  // namespace lra::ops
