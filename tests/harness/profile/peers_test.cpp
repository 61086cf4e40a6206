// lra profile --peers: other packages' layers between our own cells, measured by another program.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lra/data/task.h"
#include "results/store/store.h"
#include "tests/harness/profile/profile_fixture.h"

namespace lra::profile {
namespace {

constexpr const char* kTwoSamples =
    R"({"schema": "lra.profile/1", "attention": {"name": "x"}, "length": 1, "batch": 1, "heads": 1,)"
    R"( "head_dim": 1, "scope": "core", "mode": "inference", "dtype": "float32", "device": "cpu",)"
    R"( "status": "ok", "software": {"made": "up"}, "memory_mib": {"peak": 5, "parameters": 1},)"
    R"( "time_ms": {"median": 3.002, "samples": [3, 3.002], "passes": [{"samples": 2, "warm_up": 2}]}})";

class PeersTest : public ProfileFileTest {
 protected:
  // A peers program that says this to --list and to --child, and notes what it is asked.
  std::string made_up(const std::string& list, const std::string& answer = said(kTwoSamples)) {
    const auto file = scratch_.path() / "peers.sh";
    write_file(file, fmt::format("#!/bin/sh\n"
                                 "if [ \"$1\" = --list ]; then\n{}exit\nfi\n"
                                 "echo \"$2\" >> '{}'\n{}",
                                 said(list), asked_file().string(), answer));
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file.string();
  }
  static std::string said(const std::string& text) {
    return fmt::format("cat <<'END'\n{}\nEND\n", text);
  }
  static std::string entry(const std::string& peer, const std::string& attention) {
    return json{{"peer", peer},
                {"attention", attention},
                {"package", peer + " 1.0"},
                {"scopes", {"core", "module"}},
                {"dtypes", {"float32"}}}
        .dump();
  }
  std::filesystem::path asked_file() const { return scratch_.path() / "asked"; }
  std::vector<json> asked() const { return read_lines(asked_file()); }
  // What `words` leave open is short.
  ProgramResult profile(const std::string& program, std::vector<std::string> words) {
    const std::vector<std::pair<std::string, std::string>> usual = {
        {"--peers", program}, {"--out", out_},     {"--threads", "1"},      {"--seconds", "0.03"},
        {"--batch", "1"},     {"--scope", "core"}, {"--mode", "inference"}, {"--lengths", "64"}};
    for (const auto& [option, value] : usual) {
      if (std::ranges::find(words, option) == words.end())
        words.insert(words.end(), {option, value});
    }
    words.insert(words.begin(), "profile");
    return run_program(words);
  }
};

TEST_F(PeersTest, StandBehindTheAttentionWithTheSameEffectiveOptions) {
  const std::string program = made_up("[" + entry("quick", "nystrom") + "," +
                                      entry("slow", "nystrom[num_landmarks=8]") + "]");
  const ProgramResult result = profile(
      program, {"--attentions", "standard,nystrom[num_landmarks=64],nystrom[num_landmarks=8]",
                "--passes", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  std::vector<std::string> rows;
  for (const Profile& cell : cells()) {
    EXPECT_EQ(cell.status, Status::ok) << cell.reason;
    rows.push_back(cell.attention.label + "|" + cell.package);
  }
  EXPECT_EQ(rows,
            (std::vector<std::string>{
                "standard|", "nystrom[num_landmarks=64]|", "nystrom[num_landmarks=64]|quick 1.0",
                "nystrom[num_landmarks=8]|", "nystrom[num_landmarks=8]|slow 1.0"}));
  const Profile peer = cells().at(2);
  EXPECT_DOUBLE_EQ(peer.time->median, 3.001) << "of its samples, not what it says";
  EXPECT_EQ(peer.time->samples, (std::vector<double>{3, 3.002}));
  EXPECT_EQ(peer.memory->peak, 5);
  EXPECT_EQ(peer.software, (json{{"made", "up"}}));
  EXPECT_EQ(peer.attention.options, json::object()) << "it has its own";
  EXPECT_EQ(peer.length, 64) << "as it was asked for, whatever it answered";
  EXPECT_EQ(peer.threads, 1);
  EXPECT_TRUE(peer.roofline.has_value());
  EXPECT_FALSE(peer.flops.has_value()) << "the account is of our own arithmetic";
}

TEST_F(PeersTest, PassesOfAnotherVersionAreRefused) {
  const std::string list = "[" + entry("quick", "standard") + "]";
  ASSERT_EQ(profile(made_up(list), {"--attentions", "standard", "--passes", "1"}).status, 0);
  std::string other = kTwoSamples;
  other.replace(other.find("\"up\""), 4, "\"down\"");
  const ProgramResult more =
      profile(made_up(list, said(other)), {"--attentions", "standard", "--passes", "2"});
  EXPECT_EQ(more.status, 1);
  EXPECT_NE(more.err.find(out_ + " has passes of standard (quick 1.0) N=64 measured with made up, "
                                 "which is down now; give another --out"),
            std::string::npos)
      << more.err;
  EXPECT_EQ(cells().at(1).time->passes.size(), 1u);
}

TEST_F(PeersTest, AreAskedForTheCellAsItIs) {
  ASSERT_EQ(profile(made_up("[" + entry("quick", "standard") + "]"),
                    {"--attentions", "standard", "--passes", "1", "--memory-limit", "1GiB"})
                .status,
            0);
  const json request = asked().at(0), cell = request.at("cell");
  EXPECT_EQ(cell.at("peer"), "quick");
  EXPECT_EQ(cell.at("package"), "quick 1.0");
  EXPECT_EQ(cell.at("length"), 64);
  EXPECT_EQ(cell.at("scope"), "core");
  EXPECT_EQ(cell.at("mode"), "inference");
  EXPECT_EQ(cell.at("dtype"), "float32");
  EXPECT_EQ(request.at("threads"), 1);
  EXPECT_EQ(request.at("processors").size(), 1u) << "pinned";
  EXPECT_EQ(request.at("seconds"), 0.03);
  EXPECT_EQ(request.at("memory_limit"), int64_t{1} << 30);
}

// The order in which passes ended, as the messages tell: per pass number the rows.
std::map<int, std::vector<std::string>> told(const std::string& err) {
  std::map<int, std::vector<std::string>> passes;
  std::istringstream in(err);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(", pass ");
    if (at == std::string::npos) continue;
    const size_t begin = line.find(' ') + 1;
    passes[std::stoi(line.substr(at + 7))].push_back(line.substr(begin, at - begin));
  }
  return passes;
}

TEST_F(PeersTest, TakeTurnsWithOurOwnInAnOrderOfEachPass) {
  const std::string list = fmt::format("[{},{},{}]", entry("a", "standard"), entry("b", "standard"),
                                       entry("c", "linear"));
  const ProgramResult result =
      profile(made_up(list), {"--attentions", "standard,linear", "--passes", "4"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto passes = told(result.err);
  std::set<std::vector<std::string>> orders;
  for (int pass = 1; pass <= 4; ++pass) {
    ASSERT_TRUE(passes.contains(pass)) << result.err;
    EXPECT_EQ(passes.at(pass).size(), 5u) << "every cell once in pass " << pass;
    EXPECT_EQ(std::set<std::string>(passes.at(pass).begin(), passes.at(pass).end()).size(), 5u);
    orders.insert(passes.at(pass));
  }
  EXPECT_GT(orders.size(), 1u) << "five cells in the same order four times is 1 in 1.7 million";
  for (const Profile& cell : cells()) {
    EXPECT_GE(cell.time->passes.size(), 4u);
    if (!cell.package.empty()) {
      EXPECT_EQ(cell.time->passes.size(), 4u) << "it is never noisy";
    }
  }
  EXPECT_EQ(asked().size(), 3u * 4);
}

TEST_F(PeersTest, ASecondCallMeasuresOnlyWhatIsMissing) {
  const std::string program = made_up("[" + entry("quick", "standard") + "]");
  const std::vector<std::string> words = {"--attentions", "standard", "--passes", "1"};
  ASSERT_EQ(profile(program, words).status, 0);
  ASSERT_EQ(profile(program, words).status, 0);
  EXPECT_EQ(asked().size(), 1u);
  std::vector<std::string> longer = words;
  longer.insert(longer.end(), {"--lengths", "64,96"});
  ASSERT_EQ(profile(program, longer).status, 0);
  ASSERT_EQ(asked().size(), 2u);
  EXPECT_EQ(asked()[1].at("cell").at("length"), 96);
  EXPECT_EQ(cells().size(), 4u);
  // Another version is another cell.
  std::string newer = entry("quick", "standard");
  newer.replace(newer.find("1.0"), 3, "2.0");
  ASSERT_EQ(profile(made_up("[" + newer + "]"), words).status, 0);
  EXPECT_EQ(asked().size(), 3u);
}

TEST_F(PeersTest, WhateverBecomesOfThemTheOthersGoOn) {
  json elsewhere = json::parse(kTwoSamples);
  elsewhere["device"] = "cuda:0";
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"echo 'no such layer' >&2\nexit 3\n", "crash", "exit status 3: no such layer"},
      {"kill -SEGV $$\n", "crash", "ended by signal 11"},
      {said("nonsense"), "crash", "a measuring process's answer"},
      {said("{}"), "crash", "its answer is no line of a profile"},
      {said(elsewhere.dump()), "crash", "its answer should be of device cpu, not of cuda:0"},
      {said(R"({"schema": "lra.profile/1", "attention": {"name": "x"}, "length": 1, "batch": 1,)"
            R"( "heads": 1, "head_dim": 1, "scope": "core", "mode": "inference", "dtype": "f",)"
            R"( "device": "cpu", "status": "oom", "reason": "out of memory: 7 bytes"})"),
       "oom", "out of memory: 7 bytes"}};
  // A package each, peer0 and so on, between two attentions of our own.
  std::string list, answers = "case \"$2\" in\n";
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string peer = fmt::format("peer{}", i);
    list += (list.empty() ? "" : ",") + entry(peer, "standard");
    answers += fmt::format("*'\"{}\"'*)\n{};;\n", peer, std::get<0>(cases[i]));
  }
  const ProgramResult result = profile(made_up("[" + list + "]", answers + "esac\n"),
                                       {"--attentions", "standard,linear", "--passes", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::vector<Profile> all = cells();
  ASSERT_EQ(all.size(), cases.size() + 2);
  EXPECT_EQ(all.front().status, Status::ok);
  EXPECT_EQ(all.back().status, Status::ok);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [answer, status, reason] = cases[i];
    EXPECT_EQ(all[i + 1].package, fmt::format("peer{} 1.0", i));
    EXPECT_EQ(to_string(all[i + 1].status), status) << answer;
    EXPECT_NE(all[i + 1].reason.find(reason), std::string::npos) << all[i + 1].reason;
  }
}

TEST_F(PeersTest, NamesThoseThatAreNotThere) {
  const std::string missing = R"({"peer": "absent", "missing": "x not installed: pip install x"})";
  const ProgramResult result =
      profile(made_up("[" + entry("quick", "standard") + "," + missing + "]"),
              {"--attentions", "standard", "--passes", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("left out: absent (x not installed: pip install x)"), std::string::npos)
      << result.err;
  EXPECT_EQ(cells().size(), 2u);
}

TEST_F(PeersTest, OfScopeModelIsToldWhatToBuild) {
  const auto of_model = [](const std::string& peer, const std::string& attention) {
    json value = json::parse(entry(peer, attention));
    value["scopes"] = {"model"};
    return value;
  };
  const json list = {of_model("released", "linear"), of_model("other", "linear[normalise=false]")};
  const auto measure = [&](const std::string& protocol) {
    const ProgramResult result = profile(
        made_up(list.dump()), {"--scope", "model", "--mode", "training", "--batch", "2",
                               "--protocol", protocol, "--task", "text", "--attentions", "linear"});
    ASSERT_EQ(result.status, 0) << result.err;
  };
  measure("lra-strict");
  measure("nystromformer2021");
  const std::vector<json> requests = asked();
  // The options that a protocol gives the attention decide which peer is like it.
  std::vector<std::string> peers;
  for (const json& request : requests) {
    const json& cell = request["cell"];
    if (peers.empty() || peers.back() != cell["peer"]) peers.push_back(cell["peer"]);
    EXPECT_EQ(cell["model"]["vocabulary"], task("text").vocabulary);
    EXPECT_EQ(cell["model"]["classes"], 2);
    EXPECT_EQ(cell["model"]["inputs"], 1);
    EXPECT_EQ(cell["model"]["sizes"]["width"], 64);
    EXPECT_EQ(cell["model"]["sizes"]["layers"], 2);
  }
  EXPECT_EQ(peers, (std::vector<std::string>{"released", "other"}));
  size_t count = 0;
  for (const Profile& cell : cells()) {
    if (cell.package.empty()) continue;
    EXPECT_EQ(cell.task, "text");
    EXPECT_EQ(cell.protocol, count++ == 0 ? "lra-strict" : "nystromformer2021");
  }
  EXPECT_EQ(count, 2u);
}

TEST_F(PeersTest, RefusesWithOneLineThatHelps) {
  const auto refused = [&](const std::string& program, std::vector<std::string> words = {}) {
    words.insert(words.end(), {"--attentions", "standard"});
    const ProgramResult result = profile(program, words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(out_)) << "found before any work";
    return result.err;
  };
  const auto expect_said = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_said(refused("/nowhere/peers.py"), "no such program, or its interpreter is missing");
  expect_said(refused(made_up("nonsense")), "it should be a program that answers --list");
  expect_said(refused(made_up("[]")), "--list names no peer");
  expect_said(refused(made_up(R"([{"peer": "absent", "missing": "x not installed"}])")),
              "none is there: absent (x not installed)");
  expect_said(refused(made_up("[" + entry("a", "standrad") + "]")), "did you mean 'standard'?");
  const std::string twice = entry("a", "standard");
  expect_said(refused(made_up("[" + twice + "," + twice + "]")),
              "--list names standard of a 1.0 twice");
}

TEST_F(PeersTest, WhatNoPackageHasIsSaid) {
  const ProgramResult result =
      profile(made_up("[" + entry("quick", "nystrom") + "]"), {"--attentions", "standard"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("none of its packages has these attentions in scope"),
            std::string::npos)
      << result.err;
}

// What a package's cell of batch 2, length 512 and 2 heads of 32 says.
void expect_measured(const Profile& cell) {
  EXPECT_GT(cell.time->median, 0);
  // At least the result, and with gradients those of its inputs.
  const double result_mib = 2.0 * 512 * 64 * 4 / (1 << 20);
  EXPECT_GE(cell.memory->peak, (cell.mode == ProfileMode::training ? 2 : 1) * result_mib)
      << cell.package;
  EXPECT_EQ(cell.task, cell.scope == ProfileScope::model ? "listops" : "");
  EXPECT_EQ(cell.software.count("torch"), 1u);
}

// The packages themselves, where this machine's python3 has them.
TEST(SlowPeersTest, ThePackagesMeasureInEveryScopeAndMode) {
  const std::string program = LRA_SOURCE_DIR "/harness/profile/peers/profile_peers.py";
  const ProgramResult list = Program({"--list"}, program).wait();
  ASSERT_EQ(list.status, 0) << list.err;
  std::map<std::string, size_t> there;  // by scope
  std::string missing;
  for (const json& peer : json::parse(list.out)) {
    if (peer.contains("missing")) {
      missing = peer["missing"];
    } else {
      for (const std::string scope : peer["scopes"]) ++there[scope];
    }
  }
  if (there.empty()) GTEST_SKIP() << missing << ", and PATH=its folder of programs:$PATH";
  const Scratch scratch;
  for (const auto& [scope, mode] : {std::pair<std::string, std::string>{"core", "inference"},
                                    {"core", "training"},
                                    {"module", "inference"},
                                    {"module", "training"},
                                    {"model", "inference"},
                                    {"model", "training"}}) {
    const std::string out = (scratch.path() / fmt::format("{}-{}.jsonl", scope, mode)).string();
    std::vector<std::string> words = {"profile", "--batch",   "2",   "--heads",   "2", "--head-dim",
                                      "32",      "--lengths", "512", "--threads", "1", "--seconds",
                                      "0.03",    "--passes",  "1"};
    words.insert(
        words.end(),
        {"--peers", program, "--out", out, "--scope", scope, "--mode", mode, "--attentions",
         "standard,standard[implementation=materialized],nystrom,longformer,linformer,"
         "performer,reformer,linear"});
    if (scope == "module") words.back() += ",s5,lru,mega";  // layers without q, k and v
    const ProgramResult result = run_program(words);
    ASSERT_EQ(result.status, 0) << result.err;
    size_t peers = 0;
    for (const Profile& cell : find_records({out}).profiles) {
      EXPECT_EQ(cell.status, Status::ok) << cell.attention.label << " " << cell.package << " "
                                         << scope << " " << mode << ": " << cell.reason;
      if (cell.status != Status::ok || cell.package.empty()) continue;
      ++peers;
      EXPECT_EQ(to_string(cell.scope), scope);
      EXPECT_EQ(to_string(cell.mode), mode);
      expect_measured(cell);
    }
    EXPECT_EQ(peers, there[scope]) << scope;
  }
}

TEST(PeersScriptTest, SaysWhatIsNotInstalled) {
  // An interpreter without site packages has none of them.
  const ProgramResult list =
      Program({"-S", LRA_SOURCE_DIR "/harness/profile/peers/profile_peers.py", "--list"},
              "/usr/bin/python3")
          .wait();
  if (list.status == 127) GTEST_SKIP() << "no /usr/bin/python3 here";
  ASSERT_EQ(list.status, 0) << list.err;
  const json peers = json::parse(list.out);
  ASSERT_GE(peers.size(), 8u);
  for (const json& peer : peers) {
    EXPECT_NE(peer.at("missing").get<std::string>().find("torch"), std::string::npos);
    EXPECT_NE(peer["missing"].get<std::string>().find("requirements.txt"), std::string::npos);
  }
}

}  // namespace
}  // namespace lra::profile
