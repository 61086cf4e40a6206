// The accounts that variants give of their memory, held against the allocator.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "harness/profile/profiler.h"
#include "tests/support/shipped.h"

namespace lra::profile {
namespace {

// Every variant as it is, and the forms whose tensors are others.
std::vector<std::string> accounted() {
  std::vector<std::string> specs = {"standard[implementation=materialized]",
                                    "linear[normalise=false]",
                                    "linformer[sharing=heads_only]",
                                    "local[block=100]",
                                    "nystrom[num_landmarks=32]",
                                    "nystrom[conv_kernel_size=0]",
                                    "nystrom[landmarks=strided]",
                                    "nystrom[landmarks=adaptive_pool]",
                                    "nystrom[pinv=exact]",
                                    "nystrom[padding=ignored]",
                                    "nystrom[landmarks=strided,num_landmarks=128]",
                                    "nystrom[landmarks=strided,num_landmarks=256]",
                                    "performer[num_features=64]",
                                    "reformer[num_hashes=1]",
                                    "reformer[num_hashes=4,chunks_after=1]",
                                    "reformer[chunk_length=2048]",
                                    "sinkhorn[block=32]",
                                    "sinkhorn[block=4096]",
                                    "skyformer[num_features=32]",
                                    "sparse[block=32,summary=8]",
                                    "sparse[block=4096]",
                                    "sparse[causal=true]",
                                    "bigbird[block=32]",
                                    "bigbird[block=512]",
                                    "longformer[window=64]",
                                    "longformer[window=8192]",
                                    "synthesizer[kind=random]",
                                    "synthesizer[rank=7]",
                                    "synthesizer[rank=80]"};
  for (const AttentionEntry* entry : shipped_attentions()) specs.push_back(entry->info.name);
  return specs;
}

TEST(Account, IsWithinTenPerCentOfWhatTheAllocatorSees) {
  for (const std::string& spec : accounted()) {
    for (const auto& [batch, heads, head_dim, length] :
         {std::array<int64_t, 4>{2, 2, 32, 2048}, {1, 3, 64, 1000}}) {
      const ProfileCell cell{.attention = parse_attention(spec),
                             .length = length,
                             .batch = batch,
                             .heads = heads,
                             .head_dim = head_dim};
      const Profile record =
          profile_cell(cell, torch::kCPU, 1, 0, {.seconds = 0, .fewest = 1, .least_seconds = 0});
      if (record.status == Status::unsupported) continue;  // has no form without projections
      ASSERT_EQ(record.status, Status::ok) << spec << ": " << record.reason;
      ASSERT_TRUE(record.memory->analytic) << spec << " gives no account";
      EXPECT_NEAR(*record.memory->analytic / record.memory->peak.value(), 1, 0.1)
          << spec << " at " << length << ": " << *record.memory->analytic << " MiB by its account, "
          << record.memory->peak.value() << " MiB counted";
    }
  }
}

TEST(AccountTest, IsOfCpusAloneAndNotOfBFloat16) {
  const ProfileCell cell{.attention = parse_attention("nystrom"), .length = 1024};
  const auto attention = make_attention(cell.attention, {.max_length = cell.length});
  EXPECT_GT(account_of(*attention, cell, torch::kCPU), 0);
  EXPECT_EQ(account_of(*attention, cell, torch::Device(torch::kCUDA, 0)), -1);
  ProfileCell rounded = cell;
  rounded.dtype = ops::Dtype::bfloat16;
  EXPECT_EQ(account_of(*attention, rounded, torch::kCPU), -1);
}

}  // namespace
}  // namespace lra::profile
