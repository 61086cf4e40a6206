#include "attention_variants/ops/cuda/rows.h"
#include "attention_variants/ops/heads.h"

#include <ATen/autocast_mode.h>

#include <algorithm>

#include "attention_variants/ops/cuda/device_table.h"

namespace lra::ops::cuda {
namespace {

// Of x [rows,width] and y, both or their gradients.
DropoutRowsParams params_of(const RowsStep& step, const torch::Tensor& x, const torch::Tensor& y,
                            const torch::Tensor& mask) {
  return {.rows = x.size(0),
          .width = static_cast<int>(x.size(1)),
          .activation = step.activation,
          .branch = storage_of(x),
          .result = storage_of(y),
          .mask = mask_of(mask),
          .dropout = step.dropout};
}

// Of parts that may be undefined; allocates their sum.
PartSums part_sums(const torch::Tensor& parts, torch::Tensor& sum) {
  if (!parts.defined()) return {};
  const int64_t count = parts.size(0), columns = parts.stride(0);
  sum = torch::empty({columns}, parts.options());
  return {.parts = data_of<float>(parts),
          .count = count,
          .columns = columns,
          .sum = data_of<float>(sum)};
}

}  // namespace

torch::Tensor as_rows(const torch::Tensor& x) {
  return dense(x).view({x.numel() / x.size(-1), x.size(-1)});
}

torch::Tensor kept_mask(const torch::Tensor& mask, const torch::Tensor& x) {
  return mask.defined() ? dense(mask) : torch::empty({0}, x.options().dtype(torch::kBool));
}
const bool* mask_of(const torch::Tensor& kept) {
  return kept.numel() == 0 ? nullptr : kept.const_data_ptr<bool>();
}

torch::Tensor product_weight(const torch::Tensor& weight, torch::ScalarType type) {
  const torch::DeviceType device = weight.device().type();
  return under_autocast(device) ? at::autocast::cached_cast(type, weight, device) : weight.to(type);
}

torch::Tensor float_row(const torch::Tensor& parameter) {
  return dense(parameter.to(torch::kFloat));
}

torch::Tensor RowsStep::forward(const torch::Tensor& x, const torch::Tensor& bias,
                                const torch::Tensor& residual, const torch::Tensor& mask) const {
  torch::Tensor y = torch::empty(x.sizes(), residual.defined() ? residual.options() : x.options());
  DropoutRowsParams p = params_of(*this, x, y, mask);
  p.x = data_of(x);
  p.bias = data_of<float>(bias);
  p.residual = data_of(residual);
  p.y = data_of(y);
  start(&KernelTable::dropout_rows_forward, x, p);
  return y;
}

void RowsStep::backward(const torch::Tensor& x, const torch::Tensor& bias,
                        const torch::Tensor& grad, const torch::Tensor& mask,
                        const torch::Tensor& grad_x, const torch::Tensor& dropped,
                        const torch::Tensor& parts) const {
  DropoutRowsParams p = params_of(*this, grad_x, grad, mask);
  p.x = data_of(x);
  p.bias = data_of<float>(bias);
  p.grad = data_of(grad);
  p.grad_x = data_of(grad_x);
  p.dropped = data_of(dropped);
  p.parts = data_of<float>(parts);
  p.part_stride = parts.defined() ? parts.stride(0) : 0;
  start(&KernelTable::dropout_rows_backward, grad, p);
}

torch::Tensor empty_parts(const torch::Tensor& x, int64_t width) {
  return torch::empty({dropout_rows_parts(x.size(0)), width}, x.options().dtype(torch::kFloat));
}

torch::Tensor column_parts(const torch::Tensor& x) {
  torch::Tensor parts = empty_parts(x, x.size(1));
  start(&KernelTable::column_parts, x,
        ColumnPartsParams{.storage = storage_of(x),
                          .x = data_of(x),
                          .rows = x.size(0),
                          .columns = static_cast<int>(x.size(1)),
                          .parts = data_of<float>(parts)});
  return parts;
}

torch::Tensor sum_parts(const torch::Tensor& parts) {
  torch::Tensor sum;
  start(&KernelTable::sum_parts, parts,
        SumPartsParams{.first = part_sums(parts, sum), .second = {}});
  return sum;
}

torch::Tensor join_rows(const std::vector<torch::Tensor>& parts) {
  const torch::Tensor& first = parts.front();
  const int64_t batch = first.size(0), length = first.size(1);
  int64_t width = 0;
  for (const torch::Tensor& part : parts) width += part.size(2);
  int64_t begin = first.storage_offset();
  const auto is_next = [&](const torch::Tensor& part) {
    const bool next = part.is_alias_of(first) && part.storage_offset() == begin &&
                      part.stride(2) == 1 && (length == 1 || part.stride(1) == width) &&
                      (batch == 1 || part.stride(0) == length * width);
    begin += part.size(2);
    return next;
  };
  if (!std::ranges::all_of(parts, is_next)) return torch::cat(parts, 2);
  return first.as_strided({batch, length, width}, {length * width, width, 1});
}

NormedRows norm_rows(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                     double eps, const torch::Tensor& mask, torch::ScalarType type) {
  const int64_t rows = x.size(0);
  NormedRows normed{.rows = torch::empty(x.sizes(), x.options().dtype(type)),
                    .moments = torch::empty({2, rows}, x.options().dtype(torch::kFloat))};
  start(&KernelTable::norm_rows, x,
        NormRowsParams{.rows = rows,
                       .width = static_cast<int>(x.size(1)),
                       .x = data_of(x),
                       .mask = mask_of(mask),
                       .weight = data_of<float>(weight),
                       .bias = data_of<float>(bias),
                       .eps = static_cast<float>(eps),
                       .normed = data_of(normed.rows),
                       .moments = data_of<float>(normed.moments),
                       .input = storage_of(x),
                       .result = storage_of(normed.rows)});
  return normed;
}

NormedRowsGrads norm_rows_backward(const torch::Tensor& x, const torch::Tensor& weight,
                                   const torch::Tensor& moments, const torch::Tensor& mask,
                                   const torch::Tensor& grad_normed, const torch::Tensor& grad_past,
                                   const torch::Tensor& other_parts, const torch::Tensor& factors) {
  const int64_t rows = x.size(0), width = x.size(1);
  torch::Tensor grad_x = torch::empty_like(x);
  const torch::Tensor parts =
      torch::empty({norm_parts(rows), 2, width}, x.options().dtype(torch::kFloat));
  start(
      &KernelTable::norm_rows_backward, x,
      NormRowsBackwardParams{.rows = rows,
                             .width = static_cast<int>(width),
                             .x = data_of(x),
                             .mask = mask_of(mask),
                             .weight = data_of<float>(weight),
                             .moments = data_of<float>(moments),
                             .grad_normed = data_of(grad_normed),
                             .sharing = factors.defined() && rows > 0 ? rows / factors.size(0) : 1,
                             .factors = data_of<float>(factors),
                             .grad_past = data_of(grad_past),
                             .grad_x = data_of(grad_x),
                             .parts = data_of<float>(parts),
                             .input = storage_of(x),
                             .result = storage_of(grad_normed)});
  torch::Tensor sums, others;
  start(&KernelTable::sum_parts, x,
        SumPartsParams{.first = part_sums(parts, sums), .second = part_sums(other_parts, others)});
  return {.x = grad_x,
          .weight = sums.narrow(0, 0, width),
          .bias = sums.narrow(0, width, width),
          .others = others};
}

}  // namespace lra::ops::cuda
