// Two commands on one place: neither loses what the other writes.
#include <gtest/gtest.h>

#include "harness/fidelity/fidelity_file.h"
#include "results/store/store.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class TwoAtOnce : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return (scratch_.path() / name).string(); }
  Scratch scratch_;
};

TEST_F(TwoAtOnce, ProfilesOfOneFileAreRefused) {
  const auto words = [&](const std::string& lengths) {
    return std::vector<std::string>{
        "profile",   "--attentions", "standard",  "--lengths", lengths, "--passes",   "1",
        "--seconds", "0.1",          "--threads", "1",         "--out", in("p.jsonl")};
  };
  Program first(words("64,96,128,160"));
  while (!fs::exists(in("p.jsonl")) && !first.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const ProgramResult second = run_program(words("256"));
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.err.find(in("p.jsonl") + " is being written by process " +
                            std::to_string(first.pid())),
            std::string::npos)
      << second.err;
  EXPECT_EQ(first.wait().status, 0);
  EXPECT_EQ(find_records({in("p.jsonl")}).profiles.size(), 4u);
  EXPECT_EQ(run_program(words("256")).status, 0);
  EXPECT_EQ(find_records({in("p.jsonl")}).profiles.size(), 5u);
  EXPECT_FALSE(fs::exists(in(".p.jsonl.lock")));
}

TEST_F(TwoAtOnce, FidelityOfOneFileIsRefused) {
  const fidelity::FidelityFile first(in("f.jsonl"));
  EXPECT_NE(error_text([&] {
              const fidelity::FidelityFile second(in("f.jsonl"));
            }).find("f.jsonl is being written by process "),
            std::string::npos);
}

TEST_F(TwoAtOnce, ReportsIntoOneFolderAreRefused) {
  fs::create_directories(in("out"));
  const ProgramResult profile =
      run_program({"profile", "--attentions", "standard", "--lengths", "64", "--passes", "1",
                   "--seconds", "0.03", "--threads", "1", "--out", in("p.jsonl")});
  ASSERT_EQ(profile.status, 0) << profile.err;
  {
    const host::FolderLock other(in("out"), ".lock");
    const ProgramResult refused = run_program({"report", in("p.jsonl"), "--out", in("out")});
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find(in("out") + " is in use by process "), std::string::npos)
        << refused.err;
    EXPECT_FALSE(fs::exists(in("out/report.md")));
  }
  const ProgramResult made = run_program({"report", in("p.jsonl"), "--out", in("out")});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_FALSE(fs::exists(in("out/.lock")));
}

TEST_F(TwoAtOnce, TheSecondPreparationFindsTheDataOfTheFirst) {
  const std::vector<std::string> words = {"data",    "prepare", "listops",   "--out", in("data"),
                                          "--train", "20000",   "--threads", "1"};
  Program first(words), second(words);
  const ProgramResult a = first.wait(), b = second.wait();
  EXPECT_EQ(a.status, 0) << a.err;
  EXPECT_EQ(b.status, 0) << b.err;
  EXPECT_EQ(a.out, b.out);
  const auto found = [](const ProgramResult& result) {
    return contains(result.err, "already prepared");
  };
  EXPECT_NE(found(a), found(b)) << a.err << b.err;
  EXPECT_EQ(std::distance(fs::directory_iterator(in("data")), {}), 1);
}

}  // namespace
}  // namespace lra
