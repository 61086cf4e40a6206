// A variant that cannot take a length says so, and the record does.
#include <gtest/gtest.h>

#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"
#include "harness/profile/profiler.h"
#include "harness/training/run_folder.h"
#include "harness/training/train.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

struct PickyOptions {
  std::string where = "attend";
  template <class Fields>
  void fields(Fields& f) {
    f("where", where, one_of({"attend", "constructor"}));
  }
};

// Takes multiples of 48 alone.
class PickyAttention : public ProjectedAttention {
 public:
  PickyAttention(const AttentionContext& context, const PickyOptions& options)
      : ProjectedAttention(context), options_(options) {
    if (options.where == "constructor") check(context.max_length);
  }
  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check(q.size(2));
    return v.masked_fill(~mask.unsqueeze(1).unsqueeze(-1), 0);
  }
  json options() const override { return write_fields(options_); }

 private:
  static void check(int64_t length) {
    if (length % 48 != 0)
      throw Unsupported("picky takes lengths that 48 divides, not " + std::to_string(length));
  }
  const PickyOptions options_;
};

class UnsupportedTest : public testing::TestWithParam<const char*> {
 protected:
  // Not before: other tests run the program in forks of this one.
  static void SetUpTestSuite() {
    [[maybe_unused]] static const bool registered =
        register_attention<PickyAttention, PickyOptions>(
            {.name = "picky", .title = "Picky", .paper = "test", .complexity = "O(1)"});
  }
};

TEST_P(UnsupportedTest, IsAStatusOfTheProfileCell) {
  profile::ProfileCell cell{.attention = parse_attention(GetParam()), .length = 64};
  const Profile refused = profile::profile_cell(cell, torch::kCPU, 1, 0, {.seconds = 0.01});
  EXPECT_EQ(refused.status, Status::unsupported);
  EXPECT_EQ(refused.reason, "picky takes lengths that 48 divides, not 64");
  cell.length = 96;
  EXPECT_EQ(profile::profile_cell(cell, torch::kCPU, 1, 0, {.seconds = 0.01}).status, Status::ok);
}

TEST_P(UnsupportedTest, IsAStatusOfTheRun) {
  const Scratch scratch;
  prepare_tiny_listops(scratch.path());
  TrainRequest request{
      .config = make_config(load_protocol("lra-strict"), "listops", parse_attention(GetParam()),
                            tiny_settings(), 0, "float32"),
      .run = scratch.path() / "run",
      .data = scratch.path()};
  EXPECT_EQ(train(request), Status::unsupported);
  const Result result = parse_result(read_json(scratch.path() / "run" / kResultFile));
  EXPECT_EQ(result.status, Status::unsupported);
  EXPECT_EQ(result.reason, "picky takes lengths that 48 divides, not 64");
}

INSTANTIATE_TEST_SUITE_P(Where, UnsupportedTest,
                         testing::Values("picky", "picky[where=constructor]"));

}  // namespace
}  // namespace lra
