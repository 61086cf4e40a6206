// What tells a result that is of no use from an error that gives none.
#pragma once

#include "attention_variants/base/error.h"

namespace lra {

/// An attention gave another shape, type or device than it should (check_attention_result()).
class WrongResult : public Error {
 public:
  using Error::Error;
};

}  // namespace lra
