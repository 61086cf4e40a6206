// The record schemas and the walk that finds them.
#include "results/store/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "attention_variants/base/files.h"
#include "results/records/file_names.h"
#include "tests/results/examples.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

std::string refusal(const json& record) {
  return error_text<std::exception>([&] {
    record["schema"].get<std::string>().rfind("lra.profile", 0) == 0 ? void(parse_profile(record))
                                                                     : void(parse_result(record));
  });
}

TEST(Records, AResultComesBackAsItWasWritten) {
  Result r = example_result();
  r.dev = r.test;
  const json written = make_result(r);
  EXPECT_EQ(make_result(parse_result(json::parse(written.dump()))), written);
  EXPECT_EQ(written["schema"], "lra.result/1");
  EXPECT_NEAR(written["test"]["ci95"][0].get<double>(), 0.34960176642480284, 1e-12);
  for (const char* key :
       {"task", "attention", "protocol", "seed", "status", "test", "dev", "best_step", "steps",
        "parameters", "training", "data", "machine", "software", "config"}) {
    EXPECT_TRUE(written.contains(key)) << key;
  }
}

TEST(Records, ARunThatWasNotToBeTestedNeedsNoTest) {
  Result r = example_result();
  r.dev = r.test;
  r.test.reset();
  EXPECT_EQ(refusal(make_result(r)), "field 'test' is missing");
  r.config["evaluation"] = {{"test", true}};
  EXPECT_EQ(refusal(make_result(r)), "field 'test' is missing");
  r.config["evaluation"]["test"] = false;
  const json written = make_result(r);
  ASSERT_TRUE(written.contains("test"));
  EXPECT_EQ(written["test"], nullptr);
  const Result read = parse_result(json::parse(written.dump()));
  EXPECT_EQ(make_result(read), written);
  EXPECT_EQ(read.ending(), "not tested");
  EXPECT_EQ(example_result().ending(), "ok");
}

TEST(Records, AResultSaysWhatItStartedFromAndWhatItsAccuraciesAre) {
  Result r = example_result();
  EXPECT_FALSE(make_result(r).contains("pretrained"));
  EXPECT_FALSE(make_result(r).contains("metric"));
  r.metric = "next_token_accuracy";
  r.pretrained = example_pretraining();
  const json written = make_result(r);
  EXPECT_EQ(make_result(parse_result(json::parse(written.dump()))), written);
  EXPECT_EQ(written["metric"], "next_token_accuracy");
  EXPECT_EQ(written["pretrained"]["left"], json({"classifier.0.weight", "hidden"}));
  EXPECT_EQ(written["pretrained"]["total_steps"], 1500);
  json broken = written;
  broken["pretrained"].erase("sha256");
  EXPECT_TRUE(contains(refusal(broken), "pretrained.sha256"));
}

TEST(Records, AResultSaysHowManyProcessesTrained) {
  Result r = example_result();
  EXPECT_FALSE(make_result(r)["training"].contains("processes"));
  EXPECT_EQ(parse_result(make_result(r)).training.processes, 1);
  r.training.processes = 4;
  r.training.engine = "mpi";
  const json written = make_result(r);
  EXPECT_EQ(make_result(parse_result(json::parse(written.dump()))), written);
  EXPECT_EQ(written["training"]["processes"], 4);
  EXPECT_EQ(written["training"]["engine"], "mpi");
  EXPECT_EQ(written["training"]["peak_memory_of"], "process 0");
  json broken = written;
  broken["training"]["processes"] = 0;
  EXPECT_TRUE(contains(refusal(broken), "processes"));
}

TEST(Records, AResultSaysHowStepsWereLaunched) {
  Result r = example_result();
  EXPECT_FALSE(make_result(r)["training"].contains("execution")) << "on a CPU";
  const std::string before = machine_setting_text(r);
  r.training.execution = "eager (as set)";
  const json written = make_result(r);
  EXPECT_EQ(written["training"]["execution"], "eager (as set)");
  EXPECT_EQ(make_result(parse_result(json::parse(written.dump()))), written);
  EXPECT_EQ(machine_setting_text(parse_result(written)), before + ", eager steps");
}

TEST(Records, CostsOfOtherKernelsAreOfAnotherMachine) {
  Result r = example_result();
  r.software["kernels"] = "avx2";
  EXPECT_TRUE(contains(machine_setting_text(r), ", kernels avx2")) << machine_setting_text(r);
  r.config["kernels"] = "reference";
  EXPECT_TRUE(contains(machine_setting_text(r), ", kernels reference"));
  EXPECT_FALSE(contains(machine_setting_text(r), "avx2")) << "which it does not run";
  r.config["kernels"] = "fused";
  r.machine.gpu = "H200";
  EXPECT_FALSE(contains(machine_setting_text(r), "kernels")) << "nor on a GPU";
  r.software["gpu_kernels"] = "LibTorch's";
  EXPECT_TRUE(contains(machine_setting_text(r), ", kernels LibTorch's")) << machine_setting_text(r);
}

TEST(Records, AResultSaysHowManyRunsSharedItsGpu) {
  Result r = example_result();
  EXPECT_FALSE(make_result(r)["training"].contains("sharing"));
  EXPECT_EQ(parse_result(make_result(r)).training.sharing, 1);
  const std::string before = machine_setting_text(r);
  r.training.sharing = 6;
  const json written = make_result(r);
  EXPECT_EQ(written["training"]["sharing"], 6);
  EXPECT_EQ(make_result(parse_result(json::parse(written.dump()))), written);
  EXPECT_EQ(machine_setting_text(parse_result(written)), before + ", one of 6 runs at a time");
  json broken = written;
  broken["training"]["sharing"] = 0;
  EXPECT_TRUE(contains(refusal(broken), "sharing"));
}

TEST(Records, AnIntervalThatIsNotTheAccuracysIsNotBelieved) {
  json record = make_result(example_result());
  const stats::Interval right = parse_result(record).test->ci95;
  record["test"]["ci95"] = {0.8, 0.9};
  EXPECT_EQ(parse_result(record).test->ci95.low, right.low) << "it follows from the counts";
  record["test"]["samples"] = 40;
  EXPECT_EQ(refusal(record),
            "field 'test.ci95' is [0.8, 0.9], which does not hold the accuracy, 0.370500");
}

TEST(Records, AMachineTellsItsCoresFromThoseThatCouldBeUsed) {
  Machine machine{.processor = "Xeon", .cores = 64, .usable_cores = 2, .memory_gib = 8};
  EXPECT_EQ(machine_text(machine), "Xeon, 2 of 64 cores, 8 GiB");
  EXPECT_EQ(make_machine(parse_machine(make_machine(machine))), make_machine(machine));
  EXPECT_EQ(machine.usable(), 2);
  machine.usable_cores = 64;
  EXPECT_EQ(machine_text(machine), "Xeon, 64 cores, 8 GiB");
  json old = make_machine(machine);
  old.erase("usable_cores");
  EXPECT_EQ(parse_machine(old).usable_cores, 0);
  EXPECT_EQ(make_machine(parse_machine(old)), old) << "unknown is left out";
  EXPECT_EQ(parse_machine(old).usable(), 64) << "what older records call cores";
  EXPECT_EQ(machine_text(parse_machine(old)), "Xeon, 64 cores, 8 GiB");
  machine.huge_pages = "madvise";
  EXPECT_EQ(parse_machine(make_machine(machine)).huge_pages, "madvise");
  machine.processor_model = "family 26";
  EXPECT_EQ(parse_machine(make_machine(machine)).processor_model, "family 26");
  machine.gpu_driver = "580.95.05";
  EXPECT_EQ(parse_machine(make_machine(machine)).gpu_driver, "580.95.05");
  EXPECT_FALSE(make_machine({}).contains("gpu_driver"));
  EXPECT_EQ(machine_text(machine), "Xeon, 64 cores, 8 GiB") << "is none of a machine's names";
}

TEST(Records, AProfileComesBackAsItWasWritten) {
  const json written = make_profile(example_profile("standard", 512, 12.5, 3.25));
  EXPECT_EQ(make_profile(parse_profile(json::parse(written.dump()))), written);
  EXPECT_EQ(written["time_ms"]["median"], 3.25);
  EXPECT_EQ(written["memory_mib"]["peak"], 12.5);
  // Where LibTorch cannot tell what a GPU holds.
  json without = written;
  without["memory_mib"].erase("peak");
  EXPECT_EQ(make_profile(parse_profile(without)), without);
}

TEST(Records, ACellWithoutNumbersNeedsOnlyItsStatusAndReason) {
  Profile p = example_profile("standard", 512, 1, 1);
  p.status = Status::oom;
  p.reason = "needs 12 GiB";
  p.time.reset();
  p.memory.reset();
  EXPECT_EQ(parse_profile(make_profile(p)).reason, "needs 12 GiB");
  Result r = example_result();
  r.status = Status::pending;
  r.test.reset();
  EXPECT_EQ(parse_result(make_result(r)).status, Status::pending);
}

TEST(Records, TheLargestSeedSurvives) {
  Result r = example_result();
  r.seed = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(parse_result(json::parse(make_result(r).dump())).seed, r.seed);
}

TEST(Records, AttentionLabelFallsBackToTheName) {
  json record = make_result(example_result());
  record["attention"].erase("label");
  EXPECT_EQ(parse_result(record).attention.label, "nystrom");
}

TEST(Records, AMissingOrWrongFieldIsNamed) {
  json record = make_result(example_result());
  const auto with = [&record](const char* pointer, const json& value) {
    json changed = record;
    changed[json::json_pointer(pointer)] = value;
    return refusal(changed);
  };
  EXPECT_EQ(with("/schema", "lra.result/2"),
            "schema \"lra.result/2\" is not one that this program reads (lra.result/1)");
  EXPECT_EQ(with("/test/accuracy", nullptr), "field 'test.accuracy' is missing");
  EXPECT_EQ(with("/test/accuracy", 37.05),
            "field 'test.accuracy' should be a number from 0 to 1, not 37.05");
  EXPECT_EQ(with("/test/accuracy", 0.5),
            "field 'test.accuracy' is 0.5, but 741 of 2000 examples make 0.370500");
  EXPECT_EQ(with("/test/correct", 2001), "field 'test.correct' is 2001 of 2000 examples");
  EXPECT_EQ(with("/test/count", 0), "field 'test.count' should be an integer of at least 1, not 0");
  EXPECT_EQ(with("/test/count", uint64_t{1} << 63),
            "field 'test.count' should be an integer of at least 1, not 9223372036854775808");
  EXPECT_EQ(with("/test/ci95", {0.4, 0.3}), "field 'test.ci95' has its ends the wrong way round");
  EXPECT_EQ(with("/seed", -1), "field 'seed' should be an integer of at least 0, not -1");
  EXPECT_EQ(with("/attention", "nystrom"), "attention should be an object, not \"nystrom\"");
  EXPECT_EQ(with("/data/synthetic", 1), "field 'data.synthetic' should be true or false, not 1");
  EXPECT_EQ(with("/data/fingerprint", ""),
            "field 'data.fingerprint' is empty: a run that ended well knows its data");
  EXPECT_EQ(with("/status", "fine"),
            "field 'status' should be one of ok, oom, timeout, crash, diverged, unsupported, "
            "pending, running, not \"fine\"");
  json profile = make_profile(example_profile("standard", 512, 1, 1));
  profile["scope"] = "layer";
  EXPECT_EQ(refusal(profile), "field 'scope' should be one of core, module, model, not \"layer\"");
  profile["scope"] = "core";
  profile["time_ms"]["median"] = -1;
  EXPECT_EQ(refusal(profile), "field 'time_ms.median' should be a number of at least 0, not -1");
  profile["time_ms"] = {{"median", 2.5}, {"ci95", {1, 3.5}}, {"samples", {1, 2.5, 3}}};
  EXPECT_EQ(refusal(profile), "field 'time_ms.ci95' should lie among its samples, 1 to 3, not 3.5");
  profile["time_ms"]["median"] = 0.5;
  EXPECT_EQ(refusal(profile),
            "field 'time_ms.median' should lie among its samples, 1 to 3, not 0.5");
}

TEST(Records, NumbersThatAreNotFiniteAreWrittenAsAbsent) {
  Profile p = example_profile("standard", 512, 1, std::numeric_limits<double>::quiet_NaN());
  const json written = json::parse(make_profile(p).dump());
  EXPECT_TRUE(written["time_ms"]["median"].is_null());
  EXPECT_EQ(refusal(written), "field 'time_ms.median' is missing");
  Result r = example_result();
  r.training.seconds = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(parse_result(make_result(r)).training.seconds);
}

TEST(Records, OverriddenKeysCarryTheValuesTheyTook) {
  Result r = example_result();
  r.config["overridden"] = {"training.steps", "a.b=c", "not.there"};
  EXPECT_EQ(r.overridden(),
            (std::vector<std::string>{"a.b=c", "not.there", "training.steps=5000"}));
}

TEST(FindRecords, WalksFoldersAndReportsEachBadFileOnce) {
  const Folder folder;
  folder.write("suite/a/result.json", make_result(example_result()).dump());
  folder.write("suite/a/metrics.jsonl", "");
  folder.write("suite/a/config.json", "{}");
  folder.write("suite/b/result.json", make_result(example_result()).dump().substr(0, 300));
  folder.write("suite/c/result.json", "{\"schema\": \"lra.result/9\"}");
  folder.write("suite/d/result.json", "");
  folder.write("suite/e/result.json", "{\"schema\": \"lra.result/1\", \"task\": 1e999}");
  folder.write("suite/f/other.jsonl", "{\"schema\": \"lra.other/1\"}\n");
  const std::string line = make_profile(example_profile("standard", 512, 1, 1)).dump();
  folder.write("profile.jsonl", line + "\n\n" + line + "\r\n{}\n" + line.substr(0, 50));
  const Records records =
      find_records({folder.path(), folder.path() / "suite", folder.path() / "missing"});
  EXPECT_EQ(records.results.size(), 1u);
  EXPECT_EQ(records.profiles.size(), 2u);
  ASSERT_EQ(records.bad.size(), 6u);
  EXPECT_TRUE(
      contains(records.bad[0].reason, "line 4: field 'schema' is missing (and 1 more lines)"))
      << records.bad[0].reason;
  EXPECT_TRUE(contains(records.bad[1].reason, "not valid JSON (cut short?): parse error at line 1"))
      << records.bad[1].reason;
  EXPECT_TRUE(contains(records.bad[2].reason, "schema \"lra.result/9\" is not one"))
      << records.bad[2].reason;
  EXPECT_TRUE(contains(records.bad[3].reason, "is empty")) << records.bad[3].reason;
  EXPECT_TRUE(contains(records.bad[4].reason, "number overflow")) << records.bad[4].reason;
  EXPECT_EQ(records.bad[5].reason, "no such file or folder");
}

// An error in the middle is no end; nor is what has a record's name and is none.
TEST(FindRecords, NamesFilesThatCannotBeReadToTheirEnd) {
  namespace fs = std::filesystem;
  const Scratch scratch;
  fs::create_symlink("/proc/self/mem", scratch.path() / "broken.jsonl");  // EIO at its beginning
  fs::create_directories(scratch.path() / "run" / kResultFile);
  for (const Records& records :
       {find_records({scratch.path()}),
        find_records({scratch.path() / "broken.jsonl", scratch.path() / "run"})}) {
    ASSERT_EQ(records.bad.size(), 2u);
    for (const BadFile& bad : records.bad) {
      EXPECT_EQ(bad.reason, fs::path(bad.path).extension() == ".jsonl"
                                ? "cannot be read: Input/output error"
                                : "is no regular file");
    }
  }
}

// A report without their records would look whole.
TEST(FindRecords, NamesFoldersThatCannotBeRead) {
  namespace fs = std::filesystem;
  const Scratch scratch;
  const auto record = [&](const char* folder) {
    fs::create_directories(scratch.path() / folder);
    write_json(scratch.path() / folder / kResultFile, make_result(example_result()));
  };
  record("open/seed0");
  record("closed/seed0");
  fs::permissions(scratch.path(), fs::perms(0755));
  fs::permissions(scratch.path() / "closed", fs::perms(0));
  const uid_t self = geteuid();
  ASSERT_EQ(seteuid(self == 0 ? 65534 : self), 0);  // root reads everything
  const bool reached = faccessat(AT_FDCWD, scratch.path().c_str(), R_OK | X_OK, AT_EACCESS) == 0;
  const Records records = find_records({scratch.path()}),
                named = find_records({scratch.path() / "closed"});
  ASSERT_EQ(seteuid(self), 0);
  if (!reached) GTEST_SKIP() << "another user cannot come to " << scratch.path();
  fs::permissions(scratch.path() / "closed", fs::perms(0755));
  EXPECT_EQ(records.results.size(), 1u);
  ASSERT_EQ(records.bad.size(), 1u);
  EXPECT_EQ(records.bad[0].path, scratch.path() / "closed");
  EXPECT_EQ(records.bad[0].reason, "cannot be read: Permission denied");
  ASSERT_EQ(named.bad.size(), 1u);
  EXPECT_EQ(named.bad[0].reason, "cannot be read: Permission denied");
  EXPECT_EQ(find_records({scratch.path()}).results.size(), 2u);
}

TEST(FindRecords, AreInOneOrderHoweverFoldersAreNamed) {
  const Folder folder;
  folder.write("a/result.json", make_result(example_result("a")).dump());
  folder.write("b/result.json", make_result(example_result("b")).dump());
  const Records records = find_records({folder.path() / "b", folder.path() / "a"});
  ASSERT_EQ(records.results.size(), 2u);
  EXPECT_EQ(records.results[0].attention.label, "a");
}

TEST(FindRecords, TakeWhereAStepsTimeGoes) {
  const Folder folder;
  const std::string line = make_where(example_where()).dump();
  json short_of = make_where(example_where("b"));
  short_of.erase("roofline");
  const auto mixed = folder.write("a/w.jsonl", line + "\n" + short_of.dump() + "\n");
  const Records records = find_records({folder.path()});
  ASSERT_EQ(records.where.size(), 1u);
  EXPECT_EQ(records.where[0].attention.label, "a");
  EXPECT_EQ(records.where[0].path, mixed.string());
  ASSERT_EQ(records.bad.size(), 1u);
  EXPECT_EQ(records.bad[0].path, mixed.string());
  EXPECT_EQ(records.bad[0].reason, "line 2: field 'roofline' is missing");
  const Records named = find_records({mixed});
  EXPECT_EQ(named.where.size(), 1u);
}

TEST(FindRecords, ANamedFileOfAnotherKindIsReported) {
  const Folder folder;
  const Records records = find_records(
      {folder.write("x.json", "{\"schema\": \"lra.other/1\"}"), folder.write("y.json", "[1]"),
       folder.write("z.jsonl", "\n"), folder.write("m.jsonl", "{\"step\": 1}\n")});
  ASSERT_EQ(records.bad.size(), 4u);
  EXPECT_EQ(records.bad[0].reason,
            "schema \"lra.other/1\" is not one that this program reads (lra.result/1, "
            "lra.profile/1, lra.fidelity/1, lra.where/1)");
  EXPECT_EQ(records.bad[1].reason, "should hold a JSON object, not an array");
  EXPECT_EQ(records.bad[2].reason, "holds no record");
  EXPECT_EQ(records.bad[3].reason, "line 1: field 'schema' is missing");
}

TEST(FindRecords, DeepNestingIsRefusedBeforeItCanExhaustTheStack) {
  const Folder folder;
  const std::string deep =
      "{\"schema\": \"lra.result/1\", \"config\": " + std::string(1000000, '[');
  const Records records = find_records({folder.write("result.json", deep)});
  ASSERT_EQ(records.bad.size(), 1u);
  EXPECT_EQ(records.bad[0].reason, "nested deeper than 64 levels");
}

// Of two values a parser keeps one without a word.
TEST(FindRecords, AKeyTwiceIsRefused) {
  const Folder folder;
  std::string twice = make_result(example_result()).dump();
  twice.insert(1, "\"task\": \"another\", ");
  const Records records = find_records({folder.write("result.json", twice)});
  EXPECT_TRUE(records.results.empty());
  ASSERT_EQ(records.bad.size(), 1u);
  EXPECT_EQ(records.bad[0].reason, "key 'task' stands twice");
}

TEST(FindRecords, NamesRunsThatHaveNotEnded) {
  const Folder folder;
  folder.write("a/config.json", "{}");
  folder.write("a/metrics.jsonl", "");
  folder.write("b/config.json", "{}");
  folder.write("b/metrics.jsonl", "");
  folder.write("b/result.json", make_result(example_result()).dump());
  folder.write("c/config.json", "{}");  // of another program
  folder.write("d/tries.log", "");
  folder.write("d/pretraining/config.json", "{}");  // the first of two runs
  folder.write("d/pretraining/metrics.jsonl", "");
  folder.write("e/config.json", "{}");
  folder.write("e/metrics.jsonl", "");
  folder.write("e/pretraining/config.json", "{}");
  folder.write("e/pretraining/metrics.jsonl", "");
  const Records records = find_records({folder.path(), folder.path() / "a"});
  EXPECT_EQ(records.results.size(), 1u);
  std::vector<std::string> unended;
  for (const BadFile& bad : records.bad) {
    EXPECT_EQ(bad.reason, "a run that has not ended: no result.json");
    unended.push_back(std::filesystem::path(bad.path).lexically_relative(folder.path()).string());
  }
  EXPECT_EQ(unended, (std::vector<std::string>{"a", "d/pretraining", "e"}));
}

TEST(FindRecords, ALoopOfLinksEnds) {
  const Folder folder;
  folder.write("a/result.json", make_result(example_result()).dump());
  std::filesystem::create_directory_symlink(folder.path(), folder.path() / "a/loop");
  std::filesystem::create_symlink(folder.path() / "nowhere", folder.path() / "a/dangling.jsonl");
  const Records records = find_records({folder.path()});
  EXPECT_EQ(records.results.size(), 1u);
  ASSERT_EQ(records.bad.size(), 1u);
  EXPECT_EQ(records.bad[0].reason, "is no regular file") << records.bad[0].path;
}

// As where a suite's runs were moved to a larger disk.
TEST(FindRecords, LinksAreFollowed) {
  const Folder folder;
  const json suite = {{"schema", "lra.suite/1"},
                      {"budget", {{"name", "tiny"}, {"tasks", json::object()}}},
                      {"runs", {"runs/listops/standard/seed0"}}};
  folder.write("suite/suite.json", suite.dump());
  folder.write("disk/standard/seed0/result.json", make_result(example_result()).dump());
  std::filesystem::create_directories(folder.path() / "suite/runs/listops");
  std::filesystem::create_directory_symlink(folder.path() / "disk/standard",
                                            folder.path() / "suite/runs/listops/standard");
  const Records records = find_records({folder.path() / "suite"});
  ASSERT_EQ(records.results.size(), 1u);
  EXPECT_EQ(records.results[0].budget.name, "tiny");
  EXPECT_EQ(find_records({folder.path()}).results.size(), 1u);
}

const char* const kLogLine =
    "{\"step\":10,\"split\":\"train\",\"loss\":2.5,\"accuracy\":0.125,\"learning_rate\":0.001,"
    "\"seconds\":3.5}\n";

TEST(FindRecords, ReadWhatStandsBesideAResult) {
  const Folder folder;
  const Result r = with_predictions(example_result(), 3, [](int64_t i) { return i < 2; });
  folder.write("a/result.json", make_result(r).dump());
  folder.write("a/metrics.jsonl", kLogLine);
  folder.write("a/predictions-test.csv", "index,label,predicted\n0,0,0\n1,1,1\n2,2,3\n");
  const Records records = find_records({folder.path()});
  EXPECT_TRUE(records.bad.empty());
  ASSERT_EQ(records.results.size(), 1u);
  ASSERT_TRUE(records.results[0].predictions && records.results[0].log);
  EXPECT_EQ(records.results[0].predictions->predicted, (std::vector<int32_t>{0, 1, 3}));
  ASSERT_EQ(records.results[0].log->size(), 1u);
  const LogLine line = records.results[0].log->front();
  EXPECT_EQ(line.step, 10);
  EXPECT_EQ(line.split, LogSplit::train);
  EXPECT_EQ(line.loss, 2.5);
  EXPECT_EQ(line.accuracy, 0.125);
  EXPECT_EQ(line.learning_rate, 0.001);
  EXPECT_EQ(line.seconds, 3.5);
}

TEST(FindRecords, WhatStandsBesideAResultAndIsBrokenIsListedAndTheRestIsKept) {
  const Folder folder;
  const Result r = with_predictions(example_result(), 3, [](int64_t i) { return i < 2; });
  folder.write("a/result.json", make_result(r).dump());
  folder.write("a/metrics.jsonl", kLogLine + std::string("{\"step\":11,\"spl"));
  folder.write("a/predictions-test.csv", "index,label,predicted\n0,0,0\n1,1,0\n2,2,3\n");
  folder.write("b/result.json", make_result(r).dump());
  folder.write("b/predictions-test.csv", "index,label,predicted\n0,0");
  folder.write("b/metrics.jsonl", std::string(200000, '[') + "\n{\"step\":1,\"split\":\"test\"}");
  const Records records = find_records({folder.path()});
  ASSERT_EQ(records.results.size(), 2u);
  EXPECT_EQ(records.results[0].log->size(), 1u);
  EXPECT_FALSE(records.results[0].predictions || records.results[1].predictions);
  ASSERT_EQ(records.bad.size(), 4u);
  EXPECT_TRUE(contains(records.bad[0].path, "a/predictions-test.csv"));
  EXPECT_EQ(records.bad[0].reason,
            "1 of 3 predictions are right, but the run's result.json says 2 of 3");
  EXPECT_EQ(records.bad[1].reason, "line 2: not valid JSON (cut short?)");
  EXPECT_EQ(records.bad[2].reason, "line 2: should be index 0, a label, a prediction, not \"0,0\"");
  EXPECT_EQ(records.bad[3].reason, "line 1: not valid JSON (cut short?) (and 1 more lines)");
}

}  // namespace
}  // namespace lra
