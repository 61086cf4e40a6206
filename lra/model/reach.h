// Whether what a model is asked about reaches its answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lra/config/protocol.h"
#include "lra/data/task.h"

namespace lra {

/// How far the logits change where one token does.
struct TokenReach {
  int64_t position = 0;
  double change = 0;  // the largest of a logit, float64
};

/// Of an untrained model of `config` on `length` random tokens that are not 0, the change by
/// another token at each of `positions` (of the first input). A change of exactly 0 means that the
/// model cannot see the position.
std::vector<TokenReach> token_reach(const Task& task, Config config, int64_t length,
                                    const std::vector<int64_t>& positions);

}  // namespace lra
