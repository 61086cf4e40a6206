// What kind of work an operator is, by its name.
#pragma once

#include <string_view>

#include "results/where/record.h"

namespace lra::where {

/// How the work of a call is known.
enum class Account {
  none,
  moved,    // the bytes of the tensors in and out
  product,  // and 2 m k n operations, of the first two matrices [..,m,k] and [..,k,n]
  sum,      // likewise of the second and third, behind what they are added to
  own,      // what an own operator says of itself: ops/dispatch/recorded.h
};

struct OpTraits {
  WorkKind kind = WorkKind::other;
  Account account = Account::none;
};

/// Of an operator as observers name it, "aten::mm" or "lra::linear". A view is `other`, and so is
/// what stands in no list.
OpTraits traits_of(std::string_view name);

}  // namespace lra::where
