// The commands as a user meets them: help, lists, protocols, quiet, attend, and what evaluate
// refuses.
#include <gtest/gtest.h>
#include <torch/version.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "attention_variants/base/files.h"
#include "harness/commands/describe.h"
#include "harness/host/gpu.h"
#include "lra/config/protocol.h"
#include "lra/formats/safetensors.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// A run of the program that ends well and says nothing on stderr; returns its stdout.
std::string output_of(const Words& words) {
  const ProgramResult result = run_forked(words);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out, "");
  return result.out;
}

// A run that ends with `status`, one line on stderr with `message` in it, and nothing on stdout.
void expect_refusal(const Words& words, int status, const std::string& message) {
  std::string command = "lra";
  for (const std::string& word : words) command += " " + word;
  SCOPED_TRACE(command);
  const ProgramResult result = run_forked(words);
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_NE(result.err.find(message), std::string::npos)
      << "expected: " << message << "\ngot: " << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  EXPECT_EQ(result.out, "");
}

// The subcommands that a help text lists.
Words listed(const std::string& help) {
  Words names;
  bool listing = false;
  for (const std::string& line : text_lines(help)) {
    std::string lower = line;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (lower == "subcommands:") {
      listing = true;
    } else if (listing && line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return names;
}

// Asks for the help of a command and of all below it; their names go to `seen`.
void check_help(const Words& words, Words& seen) {
  std::string command = "lra";
  for (const std::string& word : words) command += " " + word;
  SCOPED_TRACE(command);
  seen.push_back(command);
  Words asking = words;
  asking.push_back("--help");
  const std::string help = output_of(asking);
  EXPECT_NE(help.find(command + " "), std::string::npos) << help;
  EXPECT_NE(help.find("--help"), std::string::npos) << help;
  for (const std::string& name : listed(help)) {
    Words inner = words;
    inner.push_back(name);
    check_help(inner, seen);
  }
}

TEST(CommandTest, EveryCommandHasHelpOnStdout) {
  Words seen;
  check_help({}, seen);
  for (const char* command :
       {"lra list",        "lra list attentions", "lra list tasks",    "lra list protocols",
        "lra data",        "lra data prepare",    "lra data verify",   "lra data show",
        "lra data export", "lra protocol",        "lra protocol show", "lra protocol diff",
        "lra train",       "lra evaluate",        "lra suite",         "lra profile",
        "lra report",      "lra attend",          "lra check",         "lra help",
        "lra completion"}) {
    EXPECT_EQ(std::ranges::count(seen, command), 1) << command;
  }
}

TEST(CommandTest, VersionIsOneLine) {
  const std::string version = output_of({"--version"});
  EXPECT_TRUE(version.starts_with("lra " LRA_VERSION " ")) << version;
  EXPECT_NE(version.find("torch " TORCH_VERSION), std::string::npos) << version;
  EXPECT_NE(version.find(" · cuda " + host::cuda_version() + " · "), std::string::npos) << version;
  EXPECT_EQ(std::ranges::count(version, '\n'), 1) << version;
}

TEST(CommandTest, NamesTheCommandThatWasMeant) {
  expect_refusal({"lst"}, 2, "unknown command 'lst' in lra; did you mean 'list'?");
  expect_refusal({"list", "attention"}, 2,
                 "unknown command 'attention' in lra list; did you mean 'attentions'?");
  expect_refusal({"protocol", "dif"}, 2,
                 "unknown command 'dif' in lra protocol; did you mean 'diff'?");
  expect_refusal({"list", "tasks", "--jsn"}, 2, "unknown option '--jsn'");
  expect_refusal({"list", "tasks", "--jsn"}, 2, "did you mean '--json'?");
  expect_refusal({"list"}, 2, "lra list needs a command: attentions, tasks, protocols");
  expect_refusal({}, 2, "lra needs a command: list, data");
}

// ---- Lists --------------------------------------------------------------------------------------

TEST(ListTest, AttentionsWithTheirDefaults) {
  const json list = json::parse(output_of({"list", "attentions", "--try", "--json"}));
  const json declared = json::parse(output_of({"list", "attentions", "--json"}));
  const std::string plain = output_of({"list", "attentions"});
  EXPECT_EQ(plain.find("  bfloat16"), std::string::npos) << "no column of what was not tried";
  ASSERT_EQ(list.size(), declared.size());
  const Words plain_lines = text_lines(plain);
  Words names;
  for (const json& item : list) {
    names.push_back(item["name"].get<std::string>());
    SCOPED_TRACE(names.back());
    const AttentionEntry& entry = attention_entry(names.back());
    EXPECT_EQ(item["title"], entry.info.title);
    EXPECT_EQ(item["paper"], entry.info.paper);
    EXPECT_EQ(item["softmax"] == "exact", entry.info.softmax == Softmax::exact);
    EXPECT_EQ(item["options"], entry.effective_options(json::object())) << "in effect by default";
    EXPECT_EQ(std::ranges::count_if(
                  plain_lines,
                  [&](const std::string& line) { return line.starts_with(names.back() + ": "); }),
              1)
        << plain;
    EXPECT_EQ(item["mask"], "yes");
    EXPECT_EQ(item["bfloat16"], "yes");
    json untried = item;
    for (const char* key : {"mask", "bfloat16", "cuda"}) untried[key] = "not tried";
    untried["parameters"] = nullptr;
    EXPECT_EQ(declared[names.size() - 1], untried);
    EXPECT_GE(item["parameters"], 0);
    EXPECT_NE(plain.find(item["options"].dump()), std::string::npos) << plain;
  }
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::ranges::count(names, "standard"), 1);
  const auto nystrom = std::ranges::find(names, "nystrom");
  ASSERT_NE(nystrom, names.end());
  const json& options = list[static_cast<size_t>(nystrom - names.begin())]["options"];
  EXPECT_EQ(options["num_landmarks"], 64);
  EXPECT_EQ(options["pinv_iterations"], 6);
  EXPECT_EQ(options["pinv"], "iterative");
}

// What stands on the line of a table that begins with a name.
std::string line_of(const std::string& text, const std::string& name) {
  for (const std::string& line : text_lines(text)) {
    if (line.starts_with(name + " ")) return line;
  }
  return "";
}

TEST(ListTest, AnAttentionsOptionsAreExplained) {
  const std::string nystrom = output_of({"list", "attentions", "nystrom"});
  EXPECT_NE(nystrom.find("Example: nystrom[num_landmarks=32]\n"), nystrom.npos) << nystrom;
  const std::string line = line_of(nystrom, "num_landmarks");
  EXPECT_NE(line.find("an integer, at least 1"), line.npos) << line;
  EXPECT_TRUE(line.ends_with("  64")) << line;
  EXPECT_NE(line_of(nystrom, "pinv").find("iterative"), line.npos) << nystrom;
  expect_refusal({"list", "attentions", "nystrm"}, 2, "did you mean 'nystrom'?");

  std::vector<const AttentionEntry*> all = attention_entries();
  for (const AttentionEntry* entry : released_forms()) all.push_back(entry);
  for (const AttentionEntry* entry : all) {
    const std::string text = output_of({"list", "attentions", entry->info.name});
    for (const std::string& option : entry->option_names) {
      EXPECT_NE(option_meaning(entry->info.name, option), "") << entry->info.name << " " << option;
      EXPECT_NE(line_of(text, option), "") << text;
    }
    const size_t at = text.find("Example: ");
    if (at == text.npos) continue;
    const AttentionSpec example =
        parse_attention(text.substr(at + 9, text.find('\n', at) - at - 9));
    EXPECT_NO_THROW(entry->effective_options(example.options)) << text;
  }
}

TEST(ListTest, ATasksSettingsAreExplained) {
  const std::string listops = output_of({"list", "tasks", "listops"});
  EXPECT_NE(line_of(listops, "training.steps").find("an integer, at least 1"), listops.npos);
  EXPECT_TRUE(line_of(listops, "training.steps").ends_with(" 5000")) << listops;
  EXPECT_NE(listops.find("lra data prepare listops --out data\n"), listops.npos) << listops;
  const json settings = write_fields(Settings{});
  for (const auto& [group, fields] : settings.items()) {
    if (!fields.is_object()) {
      EXPECT_NE(setting_meaning(group), "") << group;
      continue;
    }
    for (const auto& [key, value] : fields.items())
      EXPECT_NE(setting_meaning(group + "." + key), "") << group << "." << key;
  }
  expect_refusal({"list", "tasks", "listop"}, 2, "did you mean 'listops'?");
}

// ---- Help and completion ------------------------------------------------------------------------

TEST(HelpTest, IsThatOfTheCommand) {
  EXPECT_EQ(output_of({"help"}), output_of({"--help"}));
  EXPECT_EQ(output_of({"help", "list", "attentions"}), output_of({"list", "attentions", "--help"}));
  expect_refusal({"help", "lst"}, 2, "unknown command 'lst' in lra; did you mean 'list'?");
}

TEST(HelpTest, BashCompletesCommandsOptionsAndNames) {
  const Scratch scratch;
  write_file(scratch.path() / "lra.bash", output_of({"completion", "bash"}));
  const auto completed = [&](const std::string& words, int at) {
    const std::string script = "source " + (scratch.path() / "lra.bash").string() +
                               "; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(at) +
                               "; _lra; echo \"${COMPREPLY[@]}\"";
    return Program({"-c", script}, "/bin/bash").wait().text();
  };
  EXPECT_EQ(completed("lra lis", 1), "list\n");
  EXPECT_EQ(completed("lra list att", 2), "attentions\n");
  EXPECT_EQ(completed("lra train --att", 2), "--attention\n");
  EXPECT_EQ(completed("lra train --attention nys", 3), "nystrom\n");
  EXPECT_NE(output_of({"completion", "zsh"}).find("bashcompinit"), std::string::npos);
  EXPECT_NE(output_of({"completion", "fish"}).find("complete -c lra"), std::string::npos);
}

// docs/attentions.md holds what the program says today.
TEST(ListTest, TheDocumentOfTheAttentionsIsCurrent) {
  host::load_cuda();
  if (torch::cuda::is_available()) GTEST_SKIP() << "with a CUDA device its column says more";
  const std::string document = read_file(LRA_SOURCE_DIR "/docs/attentions.md");
  EXPECT_NE(document.find(output_of({"list", "attentions", "--try", "--markdown"})),
            std::string::npos)
      << "make it anew: see the command in docs/attentions.md";
}

TEST(ListTest, Tasks) {
  const json list = json::parse(output_of({"list", "tasks", "--json"}));
  const std::string plain = output_of({"list", "tasks"});
  ASSERT_EQ(list.size(), tasks().size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Task& known = *tasks()[i];
    EXPECT_EQ(list[i]["name"], known.name);
    EXPECT_EQ(list[i]["classes"], known.classes);
    EXPECT_EQ(list[i]["vocabulary"], known.vocabulary);
    EXPECT_EQ(list[i]["inputs"], known.inputs);
    EXPECT_EQ(list[i]["length"], known.length);
    EXPECT_EQ(std::ranges::count(text_lines(plain), known.name), 1) << plain;
  }
  EXPECT_EQ(task("listops").classes, 10);
}

TEST(ListTest, Protocols) {
  const json list = json::parse(output_of({"list", "protocols", "--json"}));
  const std::string plain = output_of({"list", "protocols"});
  Words names;
  for (const json& item : list) {
    names.push_back(item["name"].get<std::string>());
    EXPECT_NE(item["title"].get<std::string>(), "");
    EXPECT_NE(item["source"].get<std::string>(), "");
    EXPECT_EQ(std::ranges::count(text_lines(plain), names.back()), 1) << plain;
  }
  EXPECT_EQ(names, protocol_names());
  EXPECT_EQ(std::ranges::count(names, "lra-strict"), 1);
  EXPECT_EQ(std::ranges::count(names, "nystromformer2021"), 1);
}

// ---- Protocols ----------------------------------------------------------------------------------

TEST(ProtocolCommandTest, ShowsTheValuesInEffect) {
  const json shown =
      json::parse(output_of({"protocol", "show", "lra-strict", "--task", "listops"}));
  EXPECT_EQ(shown["name"], "lra-strict");
  ASSERT_EQ(shown["tasks"].size(), 1u);
  const json& settings = shown["tasks"]["listops"];
  EXPECT_EQ(settings["input"]["length"], 2048);
  EXPECT_EQ(settings["model"]["feed_forward"], 128);
  EXPECT_EQ(settings["training"]["steps"], 5000);
  EXPECT_EQ(settings["training"]["evaluate_every"], 50);
  EXPECT_EQ(settings["schedule"]["warmup"], 1000);
  EXPECT_EQ(settings["optimizer"]["lr"], 1e-4);
  EXPECT_EQ(settings["training"]["micro_batch"], 0) << "what the file leaves out is shown too";
  EXPECT_EQ(shown["attentions"]["nystrom"]["num_landmarks"], 64);

  const json run = json::parse(output_of({"protocol", "show", "lra-strict", "--task", "listops",
                                          "--attention", "nystrom[pinv=exact]"}));
  EXPECT_EQ(run["attention"]["options"]["pinv"], "exact");
  EXPECT_EQ(run["attention"]["options"]["conv_kernel_size"], 35);
  EXPECT_EQ(run["input"]["length"], 2048);
}

// The quirks of the released code, field by field.
TEST(ProtocolCommandTest, DiffNamesEveryFieldThatDiffers) {
  const Words all =
      text_lines(output_of({"protocol", "diff", "lra-strict", "nystromformer2021", "--lines"}));
  Words of_listops, others;
  for (const std::string& line : all) {
    const std::string prefix = "tasks.listops.";
    if (line.starts_with(prefix)) {
      of_listops.push_back(line.substr(prefix.size()));
    } else {
      others.push_back(line);
    }
  }
  std::ranges::sort(of_listops);
  EXPECT_EQ(of_listops, (Words{
                            "evaluation.drop_last: false -> true",
                            "input.mask: \"length\" -> \"nonzero\"",
                            "model.attention_dtype: \"model\" -> \"float32\"",
                            "model.mean_over: \"real\" -> \"length\"",
                            "schedule.beta1_high: 0.0 -> 0.95",
                            "schedule.beta1_low: 0.0 -> 0.85",
                        }));
  for (const char* line :
       {"name: \"lra-strict\" -> \"nystromformer2021\"", "attentions.standard.dropout: 0 -> 0.1",
        "attentions.nystrom.padding: null -> \"zeroed\"",
        "attentions.nystrom.init: null -> \"global\""}) {
    EXPECT_EQ(std::ranges::count(others, line), 1) << line;
  }
  EXPECT_EQ(run_forked({"protocol", "diff", "lra-strict", "lra-strict", "--lines"}).out, "");
}

TEST(ProtocolCommandTest, ExplainsASetting) {
  const std::string text = output_of({"protocol", "show", "lra-strict", "training.steps"});
  const std::string line = line_of(text, "training.steps");
  EXPECT_NE(line.find("an integer, at least 1"), line.npos) << text;
  EXPECT_NE(line.find(" 5000"), line.npos) << text;
  EXPECT_NE(text.find("Example: --set training.steps="), text.npos) << text;
  EXPECT_NE(line_of(output_of({"protocol", "show", "tay2020", "training"}), "training.batch"), "");
  expect_refusal({"protocol", "show", "lra-strict", "training.step"}, 2,
                 "did you mean 'training.steps'?");
}

TEST(ProtocolCommandTest, RefusesNamesThatItDoesNotKnow) {
  expect_refusal({"protocol", "show", "lra-strikt"}, 2,
                 "unknown protocol 'lra-strikt'; did you mean 'lra-strict'?");
  expect_refusal({"protocol", "diff", "lra-strict", "nystromformer2012"}, 2,
                 "unknown protocol 'nystromformer2012'; did you mean 'nystromformer2021'?");
  expect_refusal({"protocol", "show", "lra-strict", "--task", "listop"}, 2,
                 "unknown task 'listop' in protocol lra-strict; did you mean 'listops'?");
  expect_refusal({"protocol", "show", "lra-strict", "--task", "listops", "--attention", "nystrm"},
                 2, "unknown attention 'nystrm'; did you mean 'nystrom'?");
  expect_refusal({"protocol", "show", "lra-strict", "--attention", "standard"}, 2,
                 "--attention needs --task");
  expect_refusal({"protocol", "show", "no/such.json"}, 2,
                 "protocol file no/such.json does not exist");
}

// ---- lra attend ---------------------------------------------------------------------------------

class AttendCommandTest : public testing::Test {
 protected:
  Words words(const fs::path& input, const std::string& attention) const {
    return {"attend",       "--attention", attention,       "--input",
            input.string(), "--output",    output_.string()};
  }
  // Writes `file` as an input.
  fs::path write(const TensorFile& file) const {
    const fs::path path = scratch_.path() / "in.safetensors";
    write_tensors(path, file);
    return path;
  }

  const fs::path fixture_ = LRA_SOURCE_DIR "/tests/fixtures/attend-lucidrains-padded.safetensors";
  const TensorFile given_ = read_tensors(fixture_);  // q, k, v [3,2,32,8] Double
  const std::string attention_ = given_.metadata.at("attention");
  Scratch scratch_;
  fs::path output_ = scratch_.path() / "out.safetensors";
};

TEST_F(AttendCommandTest, WritesOutputAndGradientsOfAPublicImplementation) {
  const ProgramResult result = run_forked(words(fixture_, attention_));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.text(), "");
  const TensorFile out = read_tensors(output_);
  EXPECT_EQ(out.metadata.at("attention"), parse_attention(attention_).text());
  EXPECT_EQ(json::parse(out.metadata.at("options"))["init"], "global");
  const torch::Tensor real = given_.at("mask").unsqueeze(1).unsqueeze(-1);  // [B,1,N,1]
  const torch::Tensor expected = given_.at("expected.output") * real;       // [B,H,N,d]
  EXPECT_LT((out.at("output") - expected).abs().max().item<double>(), 1e-10);
  for (const char* name : {"grad.q", "grad.k", "grad.v", "grad.param.conv.weight"}) {
    const torch::Tensor peer = given_.at(std::string("expected.") + name);
    const double scale = peer.abs().max().item<double>();
    EXPECT_LT((out.at(name) - peer).abs().max().item<double>(), 1e-10 * scale) << name;
  }
}

TEST_F(AttendCommandTest, RefusesWithOneLineThatHelps) {
  const fs::path nowhere = scratch_.path() / "nowhere.safetensors";
  expect_refusal(words(nowhere, attention_), 1,
                 "cannot read " + nowhere.string() + ": No such file or directory");

  TensorFile in = given_;
  for (auto& [name, tensor] : in.tensors) {
    if (name == "k") tensor = tensor.slice(2, 0, 31);
  }
  const fs::path input = write(in);
  expect_refusal(words(input, attention_), 1,
                 input.string() + ": k should be like q, [3,2,32,8] Double, not [3,2,31,8] Double");

  in = given_;
  for (auto& [name, tensor] : in.tensors) {
    if (name == "param.conv.weight") name = "param.conv.weigth";
  }
  write(in);
  expect_refusal(words(input, attention_), 2,
                 "unknown tensor 'param.conv.weigth' in the input; did you mean "
                 "'param.conv.weight'?");

  in = given_;
  std::erase_if(in.tensors, [](const auto& item) { return item.first == "v"; });
  write(in);
  expect_refusal(words(input, attention_), 1, input.string() + ": there is no tensor 'v'");

  const std::string whole = read_file(fixture_);
  write_file(input, whole.substr(0, whole.size() / 2));
  expect_refusal(words(input, attention_), 1, input.string());
  expect_refusal(words(input, attention_), 1, "truncated");

  expect_refusal(words(fixture_, "nystrm"), 2,
                 "unknown attention 'nystrm'; did you mean 'nystrom'?");
  expect_refusal(words(fixture_, "nystrom[num_landmark=8]"), 2,
                 "unknown key 'num_landmark' in attention nystrom; did you mean 'num_landmarks'?");
  expect_refusal({"attend", "--attention", "standard"}, 2, "--input is required");
  EXPECT_FALSE(fs::exists(output_)) << "nothing half-written";

  output_ = scratch_.path() / "missing" / "out.safetensors";
  expect_refusal(words(fixture_, attention_), 1, "cannot write " + output_.string());
}

// ---- lra evaluate, and --quiet ------------------------------------------------------------------

class RunCommandTest : public testing::Test {
 protected:
  void train_run() {
    prepare_tiny_listops(data_);
    const ProgramResult result = run_forked(tiny_train(data_, run_, "standard", 6));
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err, "") << "progress, without --quiet";
  }
  Words evaluate_words(const Words& more = {}) const {
    Words words = {"evaluate", run_.string(), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Scratch scratch_;
  const fs::path data_ = scratch_.path() / "data", run_ = scratch_.path() / "run";
};

TEST_F(RunCommandTest, EvaluatePrintsTheNumbersOfTheRun) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const ProgramResult result = run_forked(evaluate_words());
  ASSERT_EQ(result.status, 0) << result.err;
  const json test = read_json(run_ / kResultFile)["test"];
  const std::string counts = std::to_string(test["correct"].get<int64_t>()) + "/50, ";
  EXPECT_TRUE(result.out.starts_with("test accuracy ")) << result.out;
  EXPECT_NE(result.out.find(counts), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("checkpoint best of step "), std::string::npos) << result.out;
  const ProgramResult last = run_forked(evaluate_words({"--checkpoint", "last", "--json"}));
  EXPECT_EQ(json::parse(last.out)["step"], 6);
}

TEST_F(RunCommandTest, EvaluateRefusesWhatIsNoRunFolder) {
  expect_refusal(evaluate_words(), 1, run_.string() + " is not a run folder (no config.json)");
  fs::create_directories(run_);
  expect_refusal(evaluate_words(), 1, run_.string() + " is not a run folder (no config.json)");
  const fs::path config = run_ / kConfigFile;
  write_file(config, "{\"task\": ");
  expect_refusal(evaluate_words(), 1, config.string());
  write_file(config, "{}");
  expect_refusal(evaluate_words(), 1, config.string() + " is not a run's configuration");
  expect_refusal({"evaluate"}, 2, "RUN is required");
}

TEST_F(RunCommandTest, EvaluateRefusesACheckpointItCannotTrust) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const fs::path best = run_ / kBestCheckpoint;
  const std::string whole = read_file(best);

  fs::remove(best);
  expect_refusal(evaluate_words(), 1,
                 "has no checkpoint-best.safetensors yet; lra train --resume goes on");
  EXPECT_EQ(run_forked(evaluate_words({"--checkpoint", "last"})).status, 0) << "it is not needed";

  write_file(best, whole.substr(0, whole.size() / 2));
  expect_refusal(evaluate_words(), 1, best.string());
  expect_refusal(evaluate_words(), 1, "truncated");
  write_file(best, whole.substr(0, 100));
  expect_refusal(evaluate_words(), 1, best.string() + ": the header should be ");
  write_file(best, "");
  expect_refusal(evaluate_words(), 1, best.string() + " is no safetensors file");

  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  write_file(best, flipped);
  expect_refusal(evaluate_words(), 1, best.string() + " is damaged");

  write_tensors(best, {.tensors = {{"a", torch::zeros({1})}}, .metadata = {}});
  expect_refusal(evaluate_words(), 1, best.string() + " is not a checkpoint of this program");

  write_file(best, whole);
  json config = read_json(run_ / kConfigFile);
  config["seed"] = 7;
  write_json(run_ / kConfigFile, config);
  expect_refusal(evaluate_words(), 1,
                 best.string() + " belongs to another configuration (seed: 0 -> 7)");
  config["seed"] = 0;
  write_json(run_ / kConfigFile, config);
  EXPECT_EQ(run_forked(evaluate_words()).status, 0) << "the whole file serves again";
}

TEST_F(RunCommandTest, EvaluateRefusesDataThatAreNotTheRuns) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const fs::path moved = scratch_.path() / "moved", other = scratch_.path() / "other";
  fs::rename(data_, moved);
  expect_refusal(evaluate_words(), 1, "say where they are with --data");
  EXPECT_EQ(run_forked(evaluate_words({"--data", moved.string()})).status, 0);

  task("listops").prepare({.out = other,
                           .seed = 6,
                           .train = 16,
                           .dev = 16,
                           .test = 16,
                           .min_length = 10,
                           .max_length = 60});
  expect_refusal(evaluate_words({"--data", other.string()}), 1,
                 "belongs to another configuration (fingerprint: ");

  const fs::path split = moved / "listops" / "test.safetensors";
  std::string bytes = read_file(split);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(split, bytes);
  expect_refusal(evaluate_words({"--data", moved.string()}), 1, split.string() + " has SHA-256 ");
}

TEST_F(RunCommandTest, EvaluateRefusesWrongUsage) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  expect_refusal(evaluate_words({"--split", "val"}), 2, "--split: val not in {train,dev,test}");
  expect_refusal(evaluate_words({"--checkpoint", "worst"}), 2, "--checkpoint: worst not in ");
  expect_refusal(evaluate_words({"--device", "gpu"}), 2,
                 "--device should be cpu, cuda or cuda:N, not 'gpu'");
  expect_refusal({"evaluate", run_.string(), "--threads=-1"}, 2,
                 "--threads should be at least 0 and at most 1024, not -1");
  expect_refusal(evaluate_words({"--splt", "dev"}), 2,
                 "unknown option '--splt' in lra evaluate; did you mean '--split'?");
}

TEST_F(RunCommandTest, QuietLeavesStderrEmpty) {
  const auto quiet = [](Words words) {
    words.insert(words.begin(), "--quiet");
    const ProgramResult result = run_forked(words);
    EXPECT_EQ(result.status, 0) << words[1];
    EXPECT_EQ(result.err, "") << words[1];
  };
  const std::string data = data_.string(), run = run_.string();
  const std::string cells = (scratch_.path() / "cells.jsonl").string();
  const Words prepare = {"data",    "prepare",      "listops", "--out",        data,
                         "--train", "64",           "--dev",   "16",           "--test",
                         "16",      "--min-length", "10",      "--max-length", "60"};
  quiet(prepare);
  quiet(prepare);  // "already prepared" is a note
  quiet({"data", "verify", data});
  quiet(tiny_train(data_, run_, "standard", 6));
  quiet(tiny_train(data_, run_, "standard", 6));  // "finished already" is a note
  quiet({"evaluate", run});
  quiet({"profile", "--attentions", "standard", "--lengths", "64", "--scope", "core", "--seconds",
         "0.02", "--threads", "1", "--out", cells});
  quiet({"report", run, cells, "--out", (scratch_.path() / "report").string()});
  quiet({"list", "tasks"});

  json set = json::object();
  for (const std::string& text : tiny_settings(6)) {
    set[text.substr(0, text.find('='))] = value_from_text(text.substr(text.find('=') + 1));
  }
  const fs::path budget = scratch_.path() / "tiny.json";
  write_json(budget, {{"schema", "lra.budget/1"},
                      {"name", "tiny"},
                      {"tasks", {{"listops", {{"set", set}}}}},
                      {"profile", {{"lengths", "64"}, {"seconds", 0.02}}}});
  quiet({"suite", "--budget", budget.string(), "--attentions", "standard", "--data", data, "--out",
         (scratch_.path() / "suite").string(), "--threads", "1"});
}

}  // namespace
}  // namespace lra
