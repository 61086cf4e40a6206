#include "attention_variants/ops/reference/lsh_slab.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace lra::ops::reference {

int64_t lsh_slots(const LshOptions& settings) { return settings.before + 1 + settings.after; }

LshSlab::LshSlab(const torch::Tensor& order, const LshOptions& settings)
    : pairs_(order.size(0)),
      rounds_(order.size(1)),
      length_(order.size(2)),
      chunks_(rounds_ * length_ / settings.chunk),
      chunk_(settings.chunk),
      before_(settings.before),
      slots_(lsh_slots(settings)),
      queries_(order.reshape({pairs_, chunks_, chunk_})) {
  std::vector<torch::Tensor> seen;
  for (int64_t slot = 0; slot < slots_; ++slot) seen.push_back(queries_.roll(before_ - slot, 1));
  keys_ = torch::cat(seen, 2);  // [m,C,w]
  const torch::Tensor pair = torch::arange(pairs_, order.options()).view({-1, 1, 1});
  query_rows_ = (queries_ + pair * length_).flatten();
  key_rows_ = (keys_ + pair * length_).flatten();
  const torch::Tensor round = torch::arange(rounds_, order.options()).view({-1, 1});
  const torch::Tensor place = torch::empty_like(order).scatter_(
      2, order, torch::arange(length_, order.options()).expand_as(order));  // the inverse of order
  sorted_rows_ = (order + (pair * rounds_ + round) * length_).flatten();
  unsorted_rows_ = (place + (pair * rounds_ + round) * length_).flatten();
}

torch::Tensor LshSlab::unsort(const torch::Tensor& x) const {
  return x.flatten(0, 1).index_select(0, unsorted_rows_).view({pairs_, rounds_, length_, -1});
}

torch::Tensor LshSlab::sort(const torch::Tensor& x) const {
  return x.flatten(0, 2).index_select(0, sorted_rows_).view({pairs_, rounds_ * length_, -1});
}

torch::Tensor LshSlab::fold(const torch::Tensor& x) const {
  const torch::Tensor slots = x.view({pairs_, chunks_, slots_, chunk_, x.size(-1)});
  torch::Tensor sum;
  for (int64_t slot = 0; slot < slots_; ++slot) {
    const torch::Tensor own = slots.select(2, slot).roll(slot - before_, 1);
    sum = sum.defined() ? sum.add_(own) : own;
  }
  return unsort(sum.flatten(0, 1));
}

void LshSlab::fill_self(torch::Tensor& scores, double value) const {
  const int64_t per_round = chunks_ / rounds_;
  const torch::Tensor blocks = scores.view({pairs_, rounds_, per_round, chunk_, slots_, chunk_});
  const torch::Tensor query =
      queries_.view({pairs_, rounds_, per_round, chunk_, 1});  // [m,R,C/R,c,1]
  const torch::Tensor key = keys_.view({pairs_, rounds_, per_round, slots_, 1, chunk_});
  for (int64_t slot = 0; slot < slots_; ++slot) {
    const int64_t offset = slot - before_;
    torch::Tensor block = blocks.select(4, slot);  // [m,R,C/R,c,c]
    if (offset == 0) {
      block.diagonal(0, -2, -1).fill_(value);
      continue;
    }
    // A round has a token once, so that it can meet itself only where another round is in sight.
    const int64_t edge = std::min(std::abs(offset), per_round);
    const int64_t begin = offset < 0 ? 0 : per_round - edge;
    const torch::Tensor same =
        query.narrow(2, begin, edge)
            .eq(key.select(3, slot).narrow(2, begin, edge));  // [m,R,edge,c,c]
    block.narrow(2, begin, edge).masked_fill_(same, value);
  }
}

torch::Tensor LshSlab::rows(const torch::Tensor& x, const torch::Tensor& index,
                            int64_t size) const {
  return x.flatten(0, 1).index_select(0, index).view({pairs_ * chunks_, size, -1});
}

}  // namespace lra::ops::reference
