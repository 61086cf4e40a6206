// What words on a command line mean: sizes, lengths, numbers, attentions and their options.
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "attention_variants/base/text.h"
#include "harness/commands/commands.h"

namespace lra {
namespace {

// What a size may be at most: a number of bytes that a double and an int64_t both hold.
constexpr double kMostBytes = 9e15;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Bytes of a unit, as GNU's programs have them: G and GiB are 2^30, GB is 10^9; 0 = it is none.
double unit_bytes(const std::string& unit) {
  if (unit.empty() || unit == "b") return 1;
  const std::string prefixes = "kmgt";
  const size_t power = prefixes.find(unit.front());
  if (power == std::string::npos) return 0;
  const std::string rest = unit.substr(1);
  const double base = rest.empty() || rest == "i" || rest == "ib" ? 1024 : rest == "b" ? 1000 : 0;
  double bytes = base;
  for (size_t i = 0; i < power; ++i) bytes *= base;
  return bytes;
}

// What is wrong with the words of a length; "" where they are replaced by a number, or are one.
std::string settle_length(std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit = lower(std::string(rest, end));
  const bool counts = error == std::errc() && value < int64_t{1} << 40;
  if (counts && (unit == "ki" || unit == "mi")) {
    text = std::to_string(value * (unit == "ki" ? 1 << 10 : 1 << 20));
    return "";
  }
  int64_t number = 0;
  if (CLI::detail::lexical_cast(text, number)) return "";
  if (counts && (unit == "k" || unit == "m")) {
    return fmt::format("'{}' may be {}{} or {}: write one of them, or {}{}i", text, value,
                       unit == "k" ? "000" : "000000", value * (unit == "k" ? 1 << 10 : 1 << 20),
                       value, unit == "k" ? "K" : "M");
  }
  if (counts && (unit.starts_with('-') || unit.starts_with("..")))
    return "'" + text + "' does not say which lengths between: write them out, as 128,192,256";
  return "should be a comma list of tokens, as 512,1024 or 512,1Ki, not '" + text + "'";
}

}  // namespace

CLI::Validator seed_text() {
  return {[](std::string& text) -> std::string {
            const bool octal = text.size() > 1 && text.front() == '0';  // to CLI11
            if (whole_number<uint64_t>(text) && !octal) return "";
            return fmt::format("should be an integer from 0 to {}, not '{}'",
                               std::numeric_limits<uint64_t>::max(), text);
          },
          ""};
}

CLI::Validator length_text() { return {settle_length, ""}; }

CLI::Validator number_in(double least, double most) {
  const CLI::Range range(least, most);
  return {[=](std::string& text) -> std::string {
            double number = 0;
            if (CLI::detail::lexical_cast(text, number) && std::isnan(number))
              return fmt::format("Value {} not in range [{:g} - {:g}]", text, least, most);
            return range(text);
          },
          range.get_description()};
}

CLI::Validator some_name() {
  return {[](std::string& text) -> std::string {
            if (text.find_first_not_of(" \t") != std::string::npos) return "";
            return "names none; leave the option out for its default";
          },
          ""};
}

int64_t parse_bytes(const std::string& option, const std::string& text) {
  std::istringstream in(text);
  double value = 0;
  std::string unit, rest;
  in >> value >> unit >> rest;
  const double scale = unit_bytes(lower(unit));
  if (!(value * scale >= 1) || !rest.empty() || value * scale > kMostBytes) {
    throw UsageError(option + " should be a size such as 8GiB or 512MiB, not '" + text +
                     "'; G is GiB, and GB is 10^9 bytes");
  }
  return static_cast<int64_t>(value * scale);
}

std::optional<std::vector<uint64_t>> parse_numbers(const std::string& text, uint64_t most) {
  std::vector<uint64_t> numbers;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    const size_t dash = part.find('-');
    const json first = value_from_text(part.substr(0, dash)),
               last = dash == std::string::npos ? first : value_from_text(part.substr(dash + 1));
    if (!first.is_number_unsigned() || !last.is_number_unsigned()) return std::nullopt;
    const uint64_t begin = first, end = last;
    if (begin > end || end - begin >= most || numbers.size() + (end - begin) >= most)
      return std::nullopt;
    for (uint64_t i = 0; i <= end - begin; ++i) numbers.push_back(begin + i);
  }
  return numbers;
}

void add_device_option(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "cpu, cuda or cuda:N")->capture_default_str();
}

void add_threads_option(CLI::App& command, int64_t& threads) {
  command.add_option("--threads", threads, "0 = all processors")->capture_default_str();
}

void check_jsonl_out(const std::string& out) {
  if (out.empty()) throw UsageError("--out is required: the JSONL file to write");
  if (!out.ends_with(".jsonl"))
    throw UsageError("--out should name a .jsonl file, not '" + out + "'");
}

void add_contract_options(CLI::App& command, ContractCheck& check) {
  auto* tried = command.add_flag_callback(
      "--check", [&check] { check = ContractCheck::all; },
      "Try the contract of built-in attentions too before training, as lra check does, and record "
      "what it says; without, of attentions of your own alone");
  command
      .add_flag_callback(
          "--no-check", [&check] { check = ContractCheck::none; },
          "Try the contract of no attention, as of one of your own that takes long to compile")
      ->excludes(tried);
}

AttentionSpec attention_given(const std::string& text, const std::vector<std::string>& options) {
  AttentionSpec attention = parse_attention(text);
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos)
      throw UsageError("--option should be key=value, not '" + option + "'");
    const std::string key = option.substr(0, equals);
    const json value = option_from_text(key, option.substr(equals + 1));
    const auto known = attention.options.find(key);
    if (known != attention.options.end() && *known != value) {
      throw UsageError(fmt::format("--option {} contradicts {}={}, which is given too: give one",
                                   option, key, known->dump()));
    }
    attention.options[key] = value;
  }
  return attention;
}

void add_attention_options(CLI::App& command, std::string& attention,
                           std::vector<std::string>& options) {
  command
      .add_option(
          "--attention", attention,
          "Attention; see lra list attentions; or python:FILE.py:Class, torchscript:FILE.pt")
      ->required();
  command.add_option("--option", options, "An option of the attention, key=value (repeatable)")
      ->allow_extra_args(false);
}

}  // namespace lra
