// Names, options and their messages.
#include "attention_variants/registry.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/scratch.h"
#include "tests/support/shipped.h"

namespace lra {
namespace {

// The message of the UsageError that `call` throws.
template <class Call>
std::string usage_text(Call call) {
  EXPECT_THROW(call(), UsageError);
  return error_text(call);
}

std::string make_message(const std::string& spec) {
  return usage_text([&] { make_attention(parse_attention(spec), {}); });
}

TEST(Registry, ReadsNamesAndOptions) {
  const AttentionSpec spec = parse_attention(" nystrom[num_landmarks=32, pinv=exact] ");
  EXPECT_EQ(spec.name, "nystrom");
  EXPECT_EQ(spec.options, json::parse(R"({"num_landmarks": 32, "pinv": "exact"})"));
  EXPECT_EQ(parse_attention("standard").options, json::object());
}

TEST(Registry, CanonicalTextSortsKeysAndReadsBack) {
  const AttentionSpec spec = parse_attention("nystrom[pinv=exact,num_landmarks=32]");
  EXPECT_EQ(spec.text(), "nystrom[num_landmarks=32,pinv=exact]");
  EXPECT_EQ(parse_attention(spec.text()).text(), spec.text());
  EXPECT_EQ(parse_attention("standard").text(), "standard");
  EXPECT_EQ((AttentionSpec{"a", {{"path", "32"}}}).text(), "a[path=\"32\"]");  // stays a string
}

TEST(Registry, WhatIsShippedWasCheckedAgainstSomething) {
  EXPECT_GE(shipped_attentions().size(), 21u);
  for (const AttentionEntry* entry : shipped_attentions())
    EXPECT_NE(entry->info.peer, "") << entry->info.name;
}

TEST(Registry, SplitsListsOutsideBrackets) {
  const auto specs =
      parse_attentions("standard,nystrom[num_landmarks=32,pinv=exact], x[a=[1,2],b=0.5]");
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_EQ(specs[0].text(), "standard");
  EXPECT_EQ(specs[1].text(), "nystrom[num_landmarks=32,pinv=exact]");
  EXPECT_EQ(specs[2].options, json::parse(R"({"a": [1, 2], "b": 0.5})"));
}

TEST(Registry, MalformedTexts) {
  EXPECT_EQ(make_message("nystrom[num_landmarks=32"),
            "attention 'nystrom[num_landmarks=32': the closing ']' is missing; write name or "
            "name[key=value,...]");
  EXPECT_EQ(make_message("nystrom[32]"),
            "attention 'nystrom[32]': '32' is no key=value; write name or name[key=value,...]");
  EXPECT_EQ(make_message("nystrom[]"),
            "attention 'nystrom[]': the brackets are empty; write name or name[key=value,...]");
  EXPECT_EQ(make_message("nystrom[pinv=exact,pinv=exact]"),
            "attention 'nystrom[pinv=exact,pinv=exact]': key 'pinv' is given twice; write name or "
            "name[key=value,...]");
  EXPECT_EQ(make_message("[a=1]"),
            "attention '[a=1]': the name is missing; write name or name[key=value,...]");
  EXPECT_EQ(make_message("nystrom]"),
            "attention 'nystrom]': ']' without '['; write name or name[key=value,...]");
  EXPECT_EQ(
      make_message("nystrom[pinv=]"),
      "attention 'nystrom[pinv=]': 'pinv=' is no key=value; write name or name[key=value,...]");
  EXPECT_EQ(
      usage_text([] { parse_attentions("standard,,nystrom"); }),
      "attentions 'standard,,nystrom': a name is missing between commas; write a,b[key=value],c");
}

TEST(Registry, UnknownNameSuggestsTheNearest) {
  const std::string message = make_message("nystrm");
  EXPECT_EQ(message.find("unknown attention 'nystrm'; did you mean 'nystrom'? Valid: "), 0u)
      << message;
  EXPECT_NE(message.find("standard"), std::string::npos) << message;
  EXPECT_TRUE(make_message("mine").ends_with("the program that LRA_EXTRA_VARIANTS built it into"));
  EXPECT_EQ(message.find("LRA_EXTRA_VARIANTS"), std::string::npos);
}

TEST(Registry, UnknownOptionSuggestsTheNearest) {
  EXPECT_EQ(make_message("nystrom[num_landmark=3]"),
            "unknown key 'num_landmark' in attention nystrom; did you mean 'num_landmarks'? Valid: "
            "num_landmarks, "
            "pinv_iterations, conv_kernel_size, pinv, landmarks, init, padding");
  EXPECT_EQ(make_message("standard[x=3]"),
            "unknown key 'x' in attention standard; valid: implementation, dropout");
}

TEST(Registry, BadValuesSayWhatIsExpected) {
  EXPECT_EQ(make_message("nystrom[num_landmarks=0]"),
            "attention nystrom: num_landmarks should be at least 1, not 0");
  EXPECT_EQ(make_message("nystrom[num_landmarks=many]"),
            "attention nystrom: num_landmarks should be an integer, at least 1, not \"many\"");
  EXPECT_EQ(make_message("nystrom[num_landmarks=1.5]"),
            "attention nystrom: num_landmarks should be an integer, at least 1, not 1.5");
  EXPECT_EQ(make_message("nystrom[pinv=svd]"),
            "attention nystrom: pinv should be one of iterative, exact, not \"svd\"");
  EXPECT_EQ(make_message("standard[dropout=1]"),
            "attention standard: dropout should be from 0 to 0.999, not 1");
}

TEST(Registry, AnOptionThatAnotherSwitchesOffIsRefused) {
  EXPECT_EQ(make_message("nystrom[pinv=exact,init=global]"),
            "attention nystrom: init has an effect only where pinv is iterative, not exact; leave "
            "it out, or set both");
  EXPECT_EQ(make_message("linear[normalise=false,epsilon=0.1]"),
            "attention linear: epsilon has an effect only where normalise is true, not false; "
            "leave it out, or set both");
  for (const char* spec :
       {"nystrom[pinv=exact,pinv_iterations=3]", "sinkhorn[iterations=9]",
        "sinkhorn[sort=softmax,temperature=0.5]", "synthesizer[kind=dense,rank=16]",
        "performer[redraw=forward,redraw_interval=3]", "performer[kernel=relu,epsilon=0.1]",
        "performer[kernel=relu,key_max=batch]", "performer[kernel=relu,max_gradient=detached]",
        "bigbird[random_blocks=0,seed=3]", "bigbird[random_blocks=0,random_range=512]"})
    EXPECT_NE(make_message(spec).find(" an effect only where "), std::string::npos) << spec;
  // A record of a run holds every option with the value in effect.
  for (const char* spec :
       {"nystrom[pinv=exact]", "sinkhorn", "synthesizer[kind=random]", "performer[kernel=relu]",
        "bigbird[random_blocks=0]", "linear[normalise=false]"}) {
    const AttentionSpec given = parse_attention(spec);
    const AttentionEntry& entry = attention_entry(given.name);
    const json effective = entry.effective_options(given.options);
    EXPECT_EQ(entry.effective_options(effective), effective) << spec;
  }
}

TEST(Registry, EntriesAreSortedAndComplete) {
  std::vector<std::string> names;
  for (const AttentionEntry* entry : attention_entries()) {
    names.push_back(entry->info.name);
    EXPECT_FALSE(entry->info.title.empty() || entry->info.paper.empty() ||
                 entry->info.complexity.empty());
    EXPECT_EQ(entry->default_options.size(), entry->option_names.size());
  }
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_TRUE(std::ranges::count(names, "standard") == 1 &&
              std::ranges::count(names, "nystrom") == 1);
  EXPECT_EQ(attention_entry("standard").info.softmax, Softmax::exact);
}

// In a process of its own, as the registry keeps it.
TEST(Registry, RefusesANameThatNobodyCanType) {
  const auto register_and_check = [](const std::string& name) {
    AttentionEntry entry = attention_entry("standard");
    entry.info.name = name;
    register_attention(std::move(entry));
    std::fputs(error_text([] { check_registrations(); }).c_str(), stderr);
    std::_Exit(0);
  };
  for (const char* name : {"a b", "a,b", "x[y]", "python:a", ""})
    EXPECT_EXIT(register_and_check(name), testing::ExitedWithCode(0), "cannot be named on a")
        << name;
  EXPECT_EXIT(register_and_check("my-attention_2.0"), testing::ExitedWithCode(0), "no error");
}

TEST(Registry, RefusesANameTwice) {
  check_registrations();
  EXPECT_FALSE(register_attention(AttentionEntry(attention_entry("standard"))));
  EXPECT_FALSE(register_attention(AttentionEntry(attention_entry("linear"))));
  EXPECT_EQ(error_text([] { check_registrations(); }),
            "attention 'standard', 'linear' is registered twice: give that of LRA_EXTRA_VARIANTS "
            "another name");
}

TEST(Registry, TellsTheSourceOfTheUsersOwn) {
  AttentionEntry own = attention_entry("performer");
  own.info.name = "performer_of_a_test";
  register_attention(own, "abc");
  const AttentionEntry& entry = attention_entry("performer_of_a_test");
  const json options = entry.effective_options({{"num_features", 8}});
  EXPECT_EQ(options.at("source_sha256"), "abc");
  EXPECT_EQ(options.at("num_features"), 8);
  EXPECT_EQ(entry.effective_options(options), options);
  json reported = options;
  reported.erase("source_sha256");
  EXPECT_EQ(options_in_effect("performer_of_a_test", reported), options);
  EXPECT_EQ(options_in_effect("performer", reported), reported);
  const AttentionContext context{.width = 8, .heads = 2, .head_dim = 4, .max_length = 16};
  EXPECT_EQ(make_attention({.name = "performer_of_a_test", .options = options}, context)->options(),
            reported);
  json other = options;
  other["source_sha256"] = "def";
  EXPECT_NE(usage_text([&] {
              entry.effective_options(other);
            }).find("is another one than meant: its SHA-256 is abc, not def"),
            std::string::npos);
  EXPECT_THROW(make_attention({.name = "performer_of_a_test", .options = other}, context),
               UsageError);
}

}  // namespace
}  // namespace lra
