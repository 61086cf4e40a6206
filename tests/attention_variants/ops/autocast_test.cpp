// Autocast for a scope leaves what stood around it.
#include "attention_variants/ops/autocast.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "attention_variants/contract/contract.h"

namespace lra {
namespace {

using at::autocast::get_autocast_dtype;
using at::autocast::is_autocast_enabled;

TEST(Autocast, WhatStoodAroundAScopeComesBack) {
  at::autocast::set_autocast_dtype(torch::kCPU, torch::kHalf);
  {
    const ops::AutocastScope scope(torch::kCPU, ops::Dtype::bfloat16);
    EXPECT_TRUE(is_autocast_enabled(torch::kCPU));
    EXPECT_EQ(get_autocast_dtype(torch::kCPU), torch::kBFloat16);
  }
  EXPECT_FALSE(is_autocast_enabled(torch::kCPU));
  EXPECT_EQ(get_autocast_dtype(torch::kCPU), torch::kHalf);
  at::autocast::set_autocast_enabled(torch::kCPU, true);
  { const ops::AutocastScope scope(torch::kCPU, ops::Dtype::bfloat16); }
  EXPECT_TRUE(is_autocast_enabled(torch::kCPU));
  EXPECT_EQ(get_autocast_dtype(torch::kCPU), torch::kHalf);
  at::autocast::set_autocast_enabled(torch::kCPU, false);
  at::autocast::set_autocast_dtype(torch::kCPU, torch::kBFloat16);
}

// An attention is judged by itself, wherever it is checked.
TEST(Autocast, OfACallerChangesNoVerdict) {
  const contract::ContractSubject subject = contract::contract_subject(parse_attention("linear"));
  at::autocast::set_autocast_enabled(torch::kCPU, true);
  for (const char* clause : {"types agree", "autocast", "finite differences"}) {
    const contract::Verdict verdict = contract::check_clause(clause, subject);
    EXPECT_TRUE(verdict.holds) << clause << ": " << verdict.measured;
    EXPECT_TRUE(is_autocast_enabled(torch::kCPU));
  }
  at::autocast::set_autocast_enabled(torch::kCPU, false);
}

}  // namespace
}  // namespace lra
