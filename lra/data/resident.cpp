#include "lra/data/resident.h"

#include <algorithm>
#include <numeric>

namespace lra {
namespace {

// Samples that are read and sent at a time.
constexpr int64_t kChunk = 1024;
// Batches whose rows are sent at a time.
constexpr int64_t kAhead = 256;

int64_t samples_of(const std::vector<Split>& splits) {
  int64_t count = 0;
  for (const Split& split : splits) count += split.size();
  return count;
}

torch::ScalarType token_type(const std::vector<Split>& splits) {
  const bool narrow = std::ranges::all_of(splits, [](const Split& split) {
    return split.size() == 0 || split.tokens(0).scalar_type() == torch::kUInt8;
  });
  return narrow ? torch::kUInt8 : torch::kInt32;
}

}  // namespace

int64_t ResidentSamples::bytes(const std::vector<Split>& splits, const LoaderOptions& options) {
  const int64_t id = static_cast<int64_t>(c10::elementSize(token_type(splits)));
  constexpr int64_t kNumber = 8;  // of a length or a label
  const int64_t inputs = splits.front().inputs(),
                labels = splits.front().has_position_labels() ? options.length : 1;
  return samples_of(splits) * (inputs * (options.length * id + kNumber) + labels * kNumber);
}

ResidentSamples::ResidentSamples(const std::vector<Split>& splits, const LoaderOptions& options,
                                 torch::Device device)
    : options_(options) {
  const int64_t count = samples_of(splits), inputs = splits.front().inputs();
  const auto on = [device](torch::ScalarType type) {
    return torch::TensorOptions().dtype(type).device(device);
  };
  tokens_ = torch::empty({count, inputs, options.length}, on(token_type(splits)));
  lengths_ = torch::empty({count, inputs}, on(torch::kInt64));
  labels_ = splits.front().has_position_labels()
                ? torch::empty({count, options.length}, on(torch::kInt64))
                : torch::empty({count}, on(torch::kInt64));
  position_ = torch::arange(options.length, on(torch::kInt64));
  full_.resize(static_cast<size_t>(count));
  LoaderOptions of_lengths = options;  // the mask tells lengths; batch() makes the other
  of_lengths.mask = InputMask::length;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t size = std::min(kChunk, count - begin);
    std::vector<int64_t> rows(static_cast<size_t>(size));
    std::iota(rows.begin(), rows.end(), begin);
    const Batch chunk = gather_batch(splits, rows, options.length, of_lengths);
    tokens_.narrow(0, begin, size).copy_(chunk.tokens.to(tokens_.scalar_type()));
    lengths_.narrow(0, begin, size).copy_(chunk.mask.sum(-1));
    labels_.narrow(0, begin, size).copy_(chunk.labels);
    const torch::Tensor full =
        input_mask(options.mask, chunk.tokens, chunk.mask).flatten(1).all(1);  // [size]
    for (int64_t i = 0; i < size; ++i)
      full_[static_cast<size_t>(begin + i)] = full.const_data_ptr<bool>()[i];
  }
}

Batch ResidentSamples::batch(const torch::Tensor& rows) const {
  Batch batch;
  batch.tokens = tokens_.index_select(0, rows).to(torch::kInt64);
  batch.labels = labels_.index_select(0, rows);
  batch.index = rows;
  const torch::Tensor by_length = options_.mask == InputMask::length
                                      ? position_.lt(lengths_.index_select(0, rows).unsqueeze(-1))
                                      : torch::Tensor();
  batch.mask = input_mask(options_.mask, batch.tokens, by_length);
  return batch;
}

bool ResidentSamples::is_full(const std::vector<int64_t>& rows) const {
  return std::ranges::all_of(rows, [&](int64_t row) { return full_[static_cast<size_t>(row)]; });
}

ResidentStream::ResidentStream(const std::vector<Split>& splits, const LoaderOptions& options,
                               torch::Device device, int64_t start_batch)
    : samples_(splits, options, device),
      order_(samples_of(splits), options, start_batch),
      device_(device) {}

void ResidentStream::look_ahead() {
  std::vector<int64_t> rows;
  full_.clear();
  for (int64_t i = 0; i < kAhead; ++i) {
    const std::vector<int64_t> batch = order_.next();
    rows.insert(rows.end(), batch.begin(), batch.end());
    full_.push_back(samples_.is_full(batch));
  }
  const torch::Tensor sent = torch::tensor(rows, torch::kInt64).view({kAhead, -1});
  // A copy from pinned memory is not waited for.
  rows_ =
      device_.is_cuda() ? sent.pin_memory().to(device_, /*non_blocking=*/true) : sent.to(device_);
  taken_ = 0;
}

Batch ResidentStream::next() {
  if (taken_ == full_.size()) look_ahead();
  Batch batch = samples_.batch(rows_.select(0, static_cast<int64_t>(taken_)));
  batch.full = full_[taken_++];
  return batch;
}

}  // namespace lra
