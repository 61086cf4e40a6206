// lra profile: one line a cell, whatever becomes of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "results/where/record.h"
#include "tests/harness/profile/profile_fixture.h"

namespace lra::profile {
namespace {

TEST_F(ProfileTest, MeasuresEveryAttentionLengthScopeAndMode) {
  for (const auto& [scope, mode] : {std::pair{"core", "inference"},
                                    {"module", "training"},
                                    {"model", "training"},
                                    {"model", "inference"}}) {
    const ProgramResult result =
        profile({"--lengths", "64", "--scope", scope, "--mode", mode, "--attentions",
                 "standard,nystrom[num_landmarks=16]", "--batch", "2"});
    ASSERT_EQ(result.status, 0) << result.err;
  }
  const auto all = cells();
  ASSERT_EQ(all.size(), 4u * 2);
  for (const Profile& cell : all) {
    EXPECT_EQ(cell.status, Status::ok) << cell.reason;
    EXPECT_GT(cell.time->median, 0);
    EXPECT_GE(cell.time->samples.size(), 1u);
    EXPECT_GT(cell.memory->peak, 0);
    EXPECT_GT(cell.memory->process_peak.value_or(0), cell.memory->peak);
    EXPECT_EQ(cell.batch, 2);
    EXPECT_EQ(cell.threads, 1);
    EXPECT_GT(cell.roofline.value().gflops, 0);
    EXPECT_GT(cell.roofline->gigabytes_per_second, 0);
    const bool optimizer = cell.scope == ProfileScope::model && cell.mode == ProfileMode::training;
    EXPECT_EQ(cell.memory->optimizer.has_value(), optimizer);
    if (optimizer) {  // two moments a weight; buffers have none
      EXPECT_LE(*cell.memory->optimizer, 2 * *cell.memory->parameters);
      EXPECT_GT(*cell.memory->optimizer, 1.5 * *cell.memory->parameters);
    }
    EXPECT_GT(cell.flops.value_or(0), 0);
    EXPECT_GT(cell.least_bytes.value_or(0), 0);
  }
  EXPECT_EQ(all[1].attention.label, "nystrom[num_landmarks=16]");
  EXPECT_EQ(all[1].attention.options["num_landmarks"], 16);
}

// 2 samples of 2 heads of 32 at 64: attention alone 4 B H N² d; a layer adds four products of
// [128,64] with [64,64]; a model of two layers adds the products of each feed-forward block,
// [128,64] with [64,128] and back, and of its head, [2,64] with [64,128] and [2,128] with [128,10].
TEST_F(ProfileTest, CountsTheOperationsOfTheScope) {
  for (const char* scope : {"core", "module", "model"}) {
    ASSERT_EQ(profile({"--lengths", "64", "--scope", scope, "--mode", "inference", "--attentions",
                       "standard", "--batch", "2"})
                  .status,
              0);
  }
  const double attention = 4.0 * 2 * 2 * 64 * 64 * 32, projections = 4 * 2.0 * 128 * 64 * 64;
  EXPECT_EQ(cells().at(0).flops, attention);
  EXPECT_EQ(cells().at(1).flops, attention + projections);
  const double feed_forward = 2 * 2.0 * 128 * 64 * 128, head = 2.0 * 2 * (64 * 128 + 128 * 10);
  EXPECT_EQ(cells().at(2).flops, 2 * (attention + projections + feed_forward) + head);
  // q, k, v and the output; x, the output, and four weights with their biases.
  EXPECT_EQ(cells()[0].least_bytes, 4.0 * 2 * 2 * 64 * 32 * 4);
  EXPECT_EQ(cells()[1].least_bytes, 2.0 * 2 * 64 * 64 * 4 + 4 * (64 * 64 + 64) * 4);
  // Tokens of 8 bytes and their mask, the weights, and logits of 10 classes.
  EXPECT_NEAR(*cells()[2].least_bytes,
              2 * 64 * 9 + *cells()[2].memory->parameters * 1024 * 1024 + 2 * 10 * 4, 1);
}

TEST_F(ProfileTest, AModelHasItsProtocolsHeads) {
  const auto heads = [&](const std::vector<std::string>& more) {
    std::filesystem::remove(out_);
    std::vector<std::string> words = {"--scope",   "model",  "--protocol",   "tay2020", "--task",
                                      "listops",   "--mode", "inference",    "--batch", "1",
                                      "--lengths", "16",     "--attentions", "standard"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(profile(words).status, 0);
    const std::vector<Profile> all = cells();
    return all.size() == 1 ? std::pair(all[0].heads, all[0].head_dim)
                           : std::pair<int64_t, int64_t>();
  };
  using Sizes = std::pair<int64_t, int64_t>;
  EXPECT_EQ(heads({}), Sizes(8, 64));
  EXPECT_EQ(heads({"--heads", "4"}), Sizes(4, 64));
  EXPECT_EQ(heads({"--set", "model.heads=2", "--set", "model.head_dim=16"}), Sizes(2, 16));
  EXPECT_EQ(heads({"--preset", "tay2020"}), Sizes(4, 64)) << "a preset of this scope stands";
}

TEST_F(ProfileTest, TakesItsSamplesFromSeveralProcesses) {
  const ProgramResult result = profile({"--lengths", "64", "--mode", "inference", "--attentions",
                                        "standard,nystrom", "--passes", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string documented = read_file(LRA_SOURCE_DIR "/docs/profile.md");
  for (const Profile& cell : cells()) {
    ASSERT_GE(cell.time->passes.size(), 2u);
    ASSERT_LE(cell.time->passes.size(), 4u) << "a noisy one gets as many again, no more";
    int64_t samples = 0, quiet = 0;
    for (const ProfilePass& pass : cell.time->passes) {
      EXPECT_GE(pass.warm_up, 2);
      EXPECT_TRUE(pass.others.has_value());
      EXPECT_TRUE(pass.reference.has_value());
      samples += pass.samples;
      quiet += pass.noisy.empty() ? 1 : 0;
    }
    EXPECT_EQ(samples, static_cast<int64_t>(cell.time->samples.size()));
    EXPECT_TRUE(quiet >= 2 || !cell.noisy.empty()) << "flagged where it stays noisy";
    EXPECT_EQ(cell.method["passes"], 2);
    for (const auto& [key, value] : cell.method.items()) {
      EXPECT_TRUE(documented.find("`method." + key + "`") != documented.npos ||
                  documented.find("`" + key + "`") != documented.npos)
          << key;
    }
    EXPECT_LE(cell.time->ci95->low, cell.time->median);
    EXPECT_GE(cell.time->ci95->high, cell.time->median);
  }
}

// What stands between a block's products is stored in bfloat16, what a residual adds up in float32.
TEST_F(ProfileTest, MemoryOfAStepUnderAutocastIsAboutTwoThirds) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    ASSERT_EQ(profile({"--lengths", "1024", "--scope", "model", "--mode", "training",
                       "--attentions", "standard,nystrom", "--batch", "16", "--dtype", dtype})
                  .status,
              0);
  }
  const auto all = cells();
  ASSERT_EQ(all.size(), 4u);
  for (size_t i = 0; i < 2; ++i) {
    const double share = all[i + 2].memory->peak.value() / all[i].memory->peak.value();
    EXPECT_LT(share, 0.71) << all[i].attention.label;
    EXPECT_GT(share, 0.5) << all[i].attention.label;
  }
}

// q, k, v are inputs and not counted; the materialized scores, softmax and output are at least
// B·H·N·(N + d) floats.
TEST_F(ProfileTest, MemoryOfTheMaterializedBaselineIsItsMatrix) {
  ASSERT_EQ(profile({"--lengths", "512", "--scope", "core", "--mode", "inference", "--attentions",
                     "standard[implementation=materialized],standard", "--batch", "1"})
                .status,
            0);
  const auto all = cells();
  const double matrix = 2.0 * 512 * 512 * 4 / (1024 * 1024);
  EXPECT_GT(all[0].memory->peak, matrix);
  EXPECT_LT(all[0].memory->peak, 4 * matrix);
  EXPECT_LT(all[1].memory->peak, matrix / 2) << "fused holds no N x N";
}

TEST_F(ProfileTest, WhatNeedsTooMuchMemoryIsOomAndTheOthersGoOn) {
  const ProgramResult result = profile(
      {"--lengths", "128,4096", "--scope", "core", "--mode", "inference", "--memory-limit", "64MiB",
       "--batch", "1", "--attentions", "standard[implementation=materialized],standard"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto all = cells();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].status, Status::ok);
  EXPECT_EQ(all[1].status, Status::ok);
  EXPECT_EQ(all[2].status, Status::oom);
  EXPECT_NE(all[2].reason.find("out of memory"), std::string::npos) << all[2].reason;
  EXPECT_FALSE(all[2].time.has_value());
  EXPECT_EQ(all[3].status, Status::ok);
}

TEST_F(ProfileTest, ASecondCallMeasuresOnlyWhatIsMissing) {
  ASSERT_EQ(profile({"--lengths", "64", "--attentions", "standard"}).status, 0);
  const auto first = cells();
  ASSERT_EQ(profile({"--lengths", "64,96", "--attentions", "standard"}).status, 0);
  const auto both = cells();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].time->samples, first[0].time->samples);
  EXPECT_EQ(both[1].length, 96);
}

TEST_F(ProfileTest, WhatOtherKernelsMeasuredDoesNotGoOn) {
  ASSERT_EQ(profile({"--lengths", "64", "--attentions", "standard"}).status, 0);
  json record = json::parse(read_file(out_));
  record["software"]["kernels"] = "others";
  const std::string before = record.dump() + "\n";
  write_file(out_, before);
  const ProgramResult result = profile({"--lengths", "64", "--attentions", "standard"});
  EXPECT_EQ(result.status, 1) << result.text();
  EXPECT_NE(result.err.find("has standard N=64 measured with kernels others, which is "),
            std::string::npos)
      << result.err;
  EXPECT_EQ(read_file(out_), before);
}

TEST_F(ProfileTest, WhatAnotherFileOrProtocolWasMeasuredAsDoesNotGoOn) {
  const auto fixture = [](const std::string& name) {
    return std::filesystem::path(LRA_SOURCE_DIR) / "tests/fixtures" /
           ("torchscript-" + name + ".pt");
  };
  const auto refused = [&](const std::vector<std::string>& words, const std::string& message) {
    const std::string before = read_file(out_);
    const ProgramResult result = profile(words);
    EXPECT_EQ(result.status, 1) << result.text();
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_EQ(read_file(out_), before);
  };
  const std::filesystem::path file = scratch_.path() / "my.pt";
  std::filesystem::copy_file(fixture("linear"), file);
  const std::vector<std::string> own = {"--lengths", "64", "--attentions",
                                        "torchscript:" + file.string()};
  ASSERT_EQ(profile(own).status, 0);
  std::filesystem::copy_file(fixture("softmax"), file,
                             std::filesystem::copy_options::overwrite_existing);
  refused(own, " N=64 measured of its file as it was before it changed; give another --out");

  std::filesystem::remove(out_);
  const std::string protocol = (scratch_.path() / "mine.json").string();
  const auto of_layers = [&](int64_t layers) {
    write_json(protocol, {{"schema", "lra.protocol/1"},
                          {"name", "mine"},
                          {"extends", "lra-strict"},
                          {"settings", {{"model", {{"layers", layers}}}}}});
  };
  of_layers(1);
  const std::vector<std::string> model = {"--lengths",  "64",    "--attentions", "standard",
                                          "--scope",    "model", "--task",       "listops",
                                          "--protocol", protocol};
  ASSERT_EQ(profile(model).status, 0);
  ASSERT_EQ(profile(model).status, 0) << "the same goes on";
  of_layers(2);
  refused(model, "with other settings of protocol mine than it has now; give another --out");
}

TEST_F(ProfileTest, WhenTheTimeIsOverEveryCellHasAPassAndIsMarked) {
  const std::vector<std::string> words = {"--lengths",       "64",       "--attentions",
                                          "standard,linear", "--passes", "2"};
  std::vector<std::string> short_words = words;
  short_words.insert(short_words.end(), {"--max-minutes", "0.00001"});
  const ProgramResult cut = profile(short_words);
  ASSERT_EQ(cut.status, 0) << cut.err;
  EXPECT_NE(cut.err.find("the time is over: 2 of 2 cells have fewer passes than 2"),
            std::string::npos)
      << cut.err;
  ASSERT_EQ(cells().size(), 2u);
  for (const Profile& cell : cells()) {
    EXPECT_EQ(cell.time->passes.size(), 1u);
    EXPECT_EQ(cell.noisy, "only 1 of 2 passes");
  }
  const ProgramResult rest = profile(words);
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(rest.err.find("the time is over"), std::string::npos) << rest.err;
  for (const Profile& cell : cells()) {
    EXPECT_GE(cell.time->passes.size(), 2u);
    EXPECT_EQ(cell.noisy.find("only"), std::string::npos) << cell.noisy;
  }
}

// The lengths of the messages' passes, in their order.
std::vector<std::string> lengths_told(const std::string& err, const std::string& pass) {
  std::vector<std::string> lengths;
  std::istringstream in(err);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(" N=");
    if (at == std::string::npos || line.find(", " + pass + ":") == std::string::npos) continue;
    lengths.push_back(line.substr(at + 3, line.find(' ', at + 3) - at - 3));
  }
  return lengths;
}

TEST_F(ProfileTest, APassGoesThroughAllLengths) {
  const ProgramResult result =
      profile({"--lengths", "96,64", "--attentions", "standard,linear", "--passes", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::vector<std::string> order = {"96", "96", "64", "64"};
  EXPECT_EQ(lengths_told(result.err, "pass 1"), order) << result.err;
  EXPECT_EQ(lengths_told(result.err, "pass 2"), order) << result.err;
  EXPECT_LT(result.err.rfind(", pass 1:"), result.err.find(", pass 2:")) << result.err;
  EXPECT_NE(result.err.find("a pass over 4 cells took "), std::string::npos) << result.err;
}

TEST_F(ProfileTest, CountsPassesAndEndsWithATable) {
  const ProgramResult result =
      profile({"--lengths", "64", "--attentions", "standard,linear", "--passes", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  // Of 4, or one more where the first is noisy.
  const bool counted = result.err.find("\n1/4 ") != std::string::npos ||
                       result.err.find("\n1/5 ") != std::string::npos;
  EXPECT_TRUE(counted) << result.err;
  EXPECT_NE(result.err.find(", ETA "), std::string::npos) << result.err;
  const size_t last = result.err.rfind(", pass ");
  EXPECT_EQ(result.err.find(", ETA ", last), std::string::npos) << "nothing is to come";
  EXPECT_NE(result.out.find("N=64"), std::string::npos) << result.out;
  const bool told = result.out.find(" times as fast as ") != std::string::npos ||
                    result.out.find(" are not told apart: ") != std::string::npos;
  EXPECT_TRUE(told) << result.out;
  // Of the file those cells alone that were asked for.
  const ProgramResult one = profile({"--lengths", "64", "--attentions", "linear"});
  EXPECT_EQ(one.out.find("standard"), std::string::npos) << one.out;
}

TEST_F(ProfileTest, AProcessThatTakesTooLongIsATimeout) {
  const ProgramResult result =
      profile({"--lengths", "64", "--attentions", "standard", "--timeout", "0.01"});
  ASSERT_EQ(result.status, 1) << result.err;
  ASSERT_EQ(cells().size(), 1u);
  EXPECT_EQ(cells()[0].status, Status::timeout);
  EXPECT_EQ(cells()[0].reason, "took longer than 0.01 s");
  // Measured again on request alone.
  ASSERT_EQ(profile({"--lengths", "64", "--attentions", "standard"}).status, 1);
  EXPECT_EQ(cells().at(0).status, Status::timeout);
  ASSERT_EQ(profile({"--lengths", "64", "--attentions", "standard", "--again"}).status, 0);
  EXPECT_EQ(cells().at(0).status, Status::ok);
}

pid_t child_of(pid_t process) {
  pid_t child = 0;
  std::ifstream(fmt::format("/proc/{0}/task/{0}/children", process)) >> child;
  return child;
}

// The process that measures for `program`, the only child of ours, once it is there.
pid_t measuring_child(const Program& program) {
  for (int attempt = 0; attempt < 2000 && !program.ended(); ++attempt) {
    if (const pid_t child = child_of(child_of(getpid())); child != 0) return child;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return 0;
}

TEST_F(ProfileTest, ACrashIsALineAndTheOthersGoOn) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer answers SIGSEGV itself";
#endif
  Program program(complete({"--lengths", "64,96", "--attentions", "standard"}));
  // The first process is the roofline's.
  const pid_t roofline = measuring_child(program);
  ASSERT_NE(roofline, 0);
  pid_t cell = roofline;
  while (cell == roofline) cell = measuring_child(program);
  ASSERT_NE(cell, 0);
  kill(cell, SIGSEGV);
  const ProgramResult result = program.wait();
  ASSERT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find("lra: 1 of 2 cells were not measured: crash of standard at N = 64\n"),
            std::string::npos)
      << result.err;
  ASSERT_EQ(cells().size(), 2u);
  EXPECT_EQ(cells()[0].status, Status::crash);
  EXPECT_NE(cells()[0].reason.find("ended by signal 11"), std::string::npos) << cells()[0].reason;
  EXPECT_EQ(cells()[1].status, Status::ok);
}

TEST_F(ProfileTest, CtrlCKeepsWhatIsMeasuredAndASecondCallGoesOn) {
  const std::vector<std::string> words = {"--lengths", "64,96,128,160", "--attentions",
                                          "standard",  "--passes",      "2"};
  Program program(complete(words));
  while (!std::filesystem::exists(out_) && !program.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  program.send(SIGINT);
  const ProgramResult stopped = program.wait();
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_NE(stopped.err.find("the same command goes on"), std::string::npos) << stopped.err;
  const auto before = cells();
  ASSERT_GE(before.size(), 1u);
  ASSERT_LT(before.size(), 4u);
  EXPECT_EQ(before[0].status, Status::ok);
  ASSERT_EQ(profile(words).status, 0);
  const auto after = cells();
  ASSERT_EQ(after.size(), 4u);
  const auto& kept = before[0].time->samples;
  ASSERT_GE(after[0].time->samples.size(), kept.size());
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), after[0].time->samples.begin()));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(after[i].length, 64 + 32 * static_cast<int64_t>(i));
    EXPECT_GE(after[i].time->passes.size(), 2u);
  }
}

TEST_F(ProfileTest, ChoosesTheBatchByTokensOrByMemory) {
  ASSERT_EQ(profile({"--lengths", "64,128", "--attentions", "standard", "--batch", "tokens=512",
                     "--mode", "inference"})
                .status,
            0);
  EXPECT_EQ(cells().at(0).batch, 8);
  EXPECT_EQ(cells().at(1).batch, 4);
  EXPECT_EQ(cells()[1].batch_policy, "tokens=512");
  ASSERT_EQ(profile({"--lengths", "64", "--attentions", "standard", "--batch", "tokens=512",
                     "--mode", "inference", "--scope", "model", "--task", "retrieval"})
                .status,
            0);
  EXPECT_EQ(cells().back().batch, 4) << "a sample has two sequences";
  std::filesystem::remove(out_);
  // One sample holds q, k, v, the output and a log-sum-exp: 2 heads · 1024 · (4 · 32 + 1) floats, a
  // little over 1 MiB; 16 of them pass the limit, 8 do not.
  ASSERT_EQ(profile({"--lengths", "1024", "--attentions", "standard", "--batch", "largest",
                     "--mode", "inference", "--memory-limit", "14MiB"})
                .status,
            0);
  EXPECT_EQ(cells().at(0).status, Status::ok) << cells()[0].reason;
  EXPECT_EQ(cells()[0].batch, 8);
  EXPECT_EQ(cells()[0].batch_policy, "largest within 14 MiB");
}

TEST_F(ProfileTest, RefusesWithOneLineThatHelps) {
  EXPECT_NE(
      profile({"--preset", "table"}).err.find("unknown preset 'table'; did you mean 'table1'?"),
      std::string::npos);
  EXPECT_NE(profile({"--attentions", "standrad"}).err.find("did you mean 'standard'?"),
            std::string::npos);
  EXPECT_NE(profile({"--attentions", "nystrom[num_landmark=3]"})
                .err.find("did you mean 'num_landmarks'?"),
            std::string::npos);
  EXPECT_NE(
      profile({"--memory-limit", "lots"}).err.find("--memory-limit should be a size such as 8GiB"),
      std::string::npos);
  EXPECT_NE(profile({"--dtype", "int8"}).err.find("--dtype should be float32, float64 or bfloat16"),
            std::string::npos);
  EXPECT_EQ(profile({"--lengths", "0"}).status, 2);
  for (const char* batch : {"0", "-1", "many", "tokens=", "tokens=0", "8x"}) {
    EXPECT_NE(profile({"--batch", batch}).err.find("--batch should be a number of samples"),
              std::string::npos)
        << batch;
  }
  for (const std::string scope : {"core", "model"}) {
    const std::string twice = profile({"--attentions", "nystrom,nystrom[num_landmarks=64]",
                                       "--scope", scope, "--lengths", "64"})
                                  .err;
    EXPECT_NE(twice.find("nystrom and nystrom[num_landmarks=64] are one attention"),
              std::string::npos)
        << twice;
  }
  EXPECT_NE(
      profile({"--set", "model.layers=1", "--scope", "core"}).err.find("to --scope model alone"),
      std::string::npos);
  EXPECT_NE(
      profile({"--scope", "model", "--set", "model.layer=1"}).err.find("did you mean 'layers'"),
      std::string::npos);
  EXPECT_NE(profile({"--scope", "model", "--set", "input.length=9"})
                .err.find("--set input.length=9: the lengths to measure are --lengths"),
            std::string::npos);
  EXPECT_NE(profile({"--scope", "model", "--heads", "4", "--set", "model.heads=8"})
                .err.find("--heads 4 and --set model.heads=8 contradict each other"),
            std::string::npos);
  for (const char* size : {"8 MiB extra", "1e30GiB"})
    EXPECT_NE(profile({"--memory-limit", size}).err.find("should be a size"), std::string::npos);
  EXPECT_NE(profile({"--compare", "nowhere.jsonl"}).err.find("no such file"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(out_)) << "nothing half-written";
  write_file(out_, "not a profile\n");
  const ProgramResult result = profile({"--lengths", "64", "--attentions", "standard"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("is not a profile of this program"), std::string::npos) << result.err;
  EXPECT_EQ(read_file(out_), "not a profile\n") << "a file of the user's is left alone";
  Where step;
  step.attention = {.name = "standard", .label = "standard"};
  step.length = step.batch = step.steps = 1;
  const std::string line = make_where(step).dump() + "\n";
  write_file(out_, line);
  EXPECT_NE(profile({"--lengths", "64", "--attentions", "standard"}).err.find("other records"),
            std::string::npos);
  EXPECT_EQ(read_file(out_), line);
}

}  // namespace
}  // namespace lra::profile
