#include "lra/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "attention_variants/base/random.h"

namespace lra {
namespace {

void check_options(const LoaderOptions& options) {
  if (options.batch < 1 || options.length < 1 || options.prefetch < 0) {
    throw UsageError("a loader needs batch >= 1, length >= 1 and prefetch >= 0, not " +
                     std::to_string(options.batch) + ", " + std::to_string(options.length) +
                     " and " + std::to_string(options.prefetch));
  }
  const Stride& stride = options.batches;
  if (stride.index < 0 || stride.index >= stride.of) {
    throw UsageError("batches.index should be from 0 to batches.of - 1, not " +
                     std::to_string(stride.index) + " of " + std::to_string(stride.of));
  }
}

int64_t total_size(const std::vector<Split>& splits) {
  int64_t size = 0;
  for (const Split& split : splits) size += split.size();
  return size;
}

// Of the longest input of a sample.
int64_t sample_length(const Split& split, int64_t row) {
  int64_t longest = 0;
  for (int64_t j = 0; j < split.inputs(); ++j) longest = std::max(longest, split.length(row, j));
  return longest;
}

// The rows of a pass over a split, one batch after another.
std::vector<int64_t> pass_order(const Split& split, const LoaderOptions& options) {
  std::vector<int64_t> rows(static_cast<size_t>(EvaluationPass::sample_count(split, options)));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  if (options.by_length) {
    std::ranges::stable_sort(rows, std::greater(),
                             [&](int64_t row) { return sample_length(split, row); });
  }
  return rows;
}

int64_t padded_length(const Split& split, const std::vector<int64_t>& rows,
                      const LoaderOptions& options) {
  if (!options.by_length) return options.length;
  constexpr int64_t kMultiple = 64;  // few shapes, and none that is empty
  int64_t longest = 1;
  for (const int64_t row : rows) longest = std::max(longest, sample_length(split, row));
  return std::min(options.length, (longest + kMultiple - 1) / kMultiple * kMultiple);
}

// A batch as its objective has it.
Batch labelled(Batch batch, const LoaderOptions& options, int64_t pass) {
  if (predicts_tokens(options.tokens.objective)) label_tokens(options.tokens, pass, batch);
  return batch;
}

torch::Tensor empty_labels(const Split& split, int64_t count, int64_t length) {
  return split.has_position_labels() ? torch::full({count, length}, -1, torch::kInt64)
                                     : torch::empty({count}, torch::kInt64);
}

// Calls `produce` up to `prefetch` batches before they are asked for, on a thread of its own.
class Prefetcher {
 public:
  // `produce` returns nothing at the end.
  Prefetcher(std::function<std::optional<Batch>()> produce, int64_t prefetch)
      : produce_(std::move(produce)), ahead_(static_cast<size_t>(prefetch)) {
    try {
      if (ahead_ > 0) thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      throw std::system_error(error.code(), "cannot start the thread that reads batches ahead");
    }
  }
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  std::optional<Batch> next() {
    if (ahead_ == 0) return produce_();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || ended_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    std::optional<Batch> batch = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    try {
      while (!stop_) {
        lock.unlock();
        std::optional<Batch> batch = produce_();
        lock.lock();
        if (!batch) break;
        ready_.push_back(std::move(*batch));
        changed_.notify_all();
        changed_.wait(lock, [this] { return ready_.size() < ahead_ || stop_; });
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      error_ = std::current_exception();
    }
    ended_ = true;
    changed_.notify_all();
  }

  std::function<std::optional<Batch>()> produce_;
  size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stop_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace

Range share_of(int64_t count, int64_t index, int64_t shares) {
  const int64_t each = count / shares, more = count % shares;
  const int64_t begin = index * each + std::min(index, more);
  return {begin, begin + each + (index < more ? 1 : 0)};
}

std::vector<int64_t> epoch_permutation(int64_t count, uint64_t seed, int64_t epoch) {
  if (count < 0 || count > UINT32_MAX) {
    throw Error("cannot shuffle " + std::to_string(count) + " samples: at most 4294967295");
  }
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  CounterRandom random(seed, static_cast<uint64_t>(epoch));
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  }
  return order;
}

Batch gather_batch(const std::vector<Split>& splits, const std::vector<int64_t>& rows,
                   int64_t length, const LoaderOptions& options) {
  const int64_t count = static_cast<int64_t>(rows.size());
  const int64_t inputs = splits.front().inputs();
  Batch batch{torch::zeros({count, inputs, length}, torch::kInt64),
              torch::zeros({count, inputs, length}, torch::kBool),
              empty_labels(splits.front(), count, length),
              torch::tensor(rows, torch::kInt64),
              /*full=*/true,
              torch::zeros({count}, torch::kInt64)};
  int64_t* tokens = batch.tokens.data_ptr<int64_t>();
  bool* mask = batch.mask.data_ptr<bool>();
  int64_t *labels = batch.labels.data_ptr<int64_t>(), *lengths = batch.lengths.data_ptr<int64_t>();
  for (int64_t b = 0; b < count; ++b) {
    auto split = splits.begin();
    int64_t row = rows[b];
    for (; row >= split->size(); ++split) row -= split->size();
    const int64_t kept = std::min(length, options.kept());
    if (split->has_position_labels()) {
      split->copy_labels(row, kept, labels + b * length);
    } else {
      labels[b] = split->label(row);
    }
    for (int64_t j = 0; j < inputs; ++j, tokens += length, mask += length) {
      const int64_t n = split->copy(row, j, kept, tokens);
      lengths[b] = std::max(lengths[b], n);
      for (int64_t i = 0; i < n; ++i)
        mask[i] = options.mask != InputMask::nonzero || tokens[i] != 0;
      if (options.mask == InputMask::none) std::fill(mask, mask + length, true);
      batch.full = batch.full && std::all_of(mask, mask + length, [](bool real) { return real; });
    }
  }
  return batch;
}

torch::Tensor input_mask(InputMask kind, const torch::Tensor& tokens,
                         const torch::Tensor& by_length) {
  switch (kind) {
    case InputMask::length:
      return by_length;
    case InputMask::nonzero:
      return tokens.ne(0);
    case InputMask::none:
      return torch::ones_like(tokens, torch::kBool);
  }
  throw std::logic_error("no such mask");
}

TrainingOrder::TrainingOrder(int64_t size, const LoaderOptions& options, int64_t start_batch)
    : size_(size), options_(options), position_(start_batch * options.batch) {}

std::vector<int64_t> TrainingOrder::next() {
  std::vector<int64_t> rows;
  for (int64_t sample = 0; sample < options_.batch; ++sample) {
    const int64_t wanted = position_ / size_;
    if (options_.shuffle && wanted != epoch_) {
      order_ = epoch_permutation(size_, options_.seed, wanted);
      epoch_ = wanted;
    }
    const int64_t i = position_++ % size_;
    if (sample < options_.samples.begin || sample >= options_.samples.end) continue;
    rows.push_back(options_.shuffle ? order_[static_cast<size_t>(i)] : i);
  }
  return rows;
}

struct TrainingStream::State {
  // Copies of the splits share their mappings, which so outlive the caller's.
  State(std::vector<Split> sources, const LoaderOptions& loader, int64_t start_batch)
      : splits(std::move(sources)),
        options(loader),
        order(total_size(splits), loader, start_batch),
        step(start_batch),
        prefetcher([this] { return produce(); }, loader.prefetch) {}

  std::optional<Batch> produce() {
    Batch batch = gather_batch(splits, order.next(), options.length, options);
    return labelled(std::move(batch), options, ++step);
  }

  std::vector<Split> splits;
  LoaderOptions options;
  TrainingOrder order;
  int64_t step;           // batches made, those before the start too
  Prefetcher prefetcher;  // last: its thread uses all of the above
};

TrainingStream::TrainingStream(const Split& split, const LoaderOptions& options,
                               int64_t start_batch)
    : TrainingStream(std::vector<Split>{split}, options, start_batch) {}

TrainingStream::TrainingStream(std::vector<Split> splits, const LoaderOptions& options,
                               int64_t start_batch) {
  check_options(options);
  if (total_size(splits) == 0) throw Error("cannot train on a split without samples");
  if (start_batch < 0) {
    throw UsageError("a stream starts at batch 0 or later, not " + std::to_string(start_batch));
  }
  state_ = std::make_unique<State>(std::move(splits), options, start_batch);
}

TrainingStream::~TrainingStream() = default;

Batch TrainingStream::next() { return *state_->prefetcher.next(); }

struct EvaluationPass::State {
  State(const Split& source, const LoaderOptions& loader)
      : split(source),
        options(loader),
        number(loader.batches.index),
        count(batch_count(source, loader)),
        order(pass_order(source, loader)),
        prefetcher([this] { return produce(); }, loader.prefetch) {}

  std::optional<Batch> produce() {
    if (number >= count) return std::nullopt;
    const int64_t begin = number * options.batch,
                  end = std::min(begin + options.batch, std::ssize(order));
    number += options.batches.of;
    const std::vector<int64_t> rows(order.begin() + begin, order.begin() + end);
    return labelled(gather_batch({split}, rows, padded_length(split, rows, options), options),
                    options, kEvaluationPass);
  }

  Split split;
  LoaderOptions options;
  int64_t number, count;  // of batches
  std::vector<int64_t> order;
  Prefetcher prefetcher;  // last: its thread uses all of the above
};

EvaluationPass::EvaluationPass(const Split& split, const LoaderOptions& options) {
  check_options(options);
  state_ = std::make_unique<State>(split, options);
}

EvaluationPass::~EvaluationPass() = default;

int64_t EvaluationPass::batch_count(const Split& split, const LoaderOptions& options) {
  return (split.size() + (options.drop_last ? 0 : options.batch - 1)) / options.batch;
}

int64_t EvaluationPass::sample_count(const Split& split, const LoaderOptions& options) {
  return std::min(split.size(), batch_count(split, options) * options.batch);
}

bool EvaluationPass::next(Batch& batch) {
  std::optional<Batch> next = state_->prefetcher.next();
  if (next) batch = std::move(*next);
  return next.has_value();
}

}  // namespace lra
