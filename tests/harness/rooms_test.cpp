// The order of the house: who may include whom, and that no room names what another one registers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention_variants/base/files.h"
#include "attention_variants/registry.h"
#include "lra/data/task.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

struct Literal {
  int line;
  std::string text;  // between the quotes, escapes as written
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The index behind the next `text`.
size_t after(std::string_view code, std::string_view text, size_t from) {
  const size_t at = code.find(text, from);
  return at == std::string_view::npos ? code.size() : at + text.size();
}

// The index of the quote that closes the one at `open`.
size_t closing(std::string_view code, size_t open) {
  size_t at = open + 1;
  while (at < code.size() && code[at] != code[open]) at += code[at] == '\\' ? 2 : 1;
  return std::min(at, code.size());
}

// The string literals of C++ code without its comments; what a raw literal quotes counts too.
std::vector<Literal> literals(std::string_view code, int line = 1) {
  std::vector<Literal> found;
  for (size_t at = 0; at < code.size();) {
    const std::string_view rest = code.substr(at);
    const bool in_word = at > 0 && is_word(code[at - 1]);  // 30'000
    size_t end = at + 1;
    if (rest.starts_with("//")) {
      end = after(code, "\n", at);
    } else if (rest.starts_with("/*")) {
      end = after(code, "*/", at + 2);
    } else if (rest.starts_with("R\"") && !in_word) {
      const size_t open = std::min(code.find('(', at), code.size());
      const std::string close = ")" + std::string(code.substr(at + 2, open - at - 2)) + "\"";
      const size_t stop = std::min(code.find(close, open), code.size());
      for (Literal& inner : literals(code.substr(open, stop - open), line)) {
        found.push_back(std::move(inner));
      }
      end = stop + close.size();
    } else if (code[at] == '"') {
      const size_t stop = closing(code, at);
      found.push_back({line, std::string(code.substr(at + 1, stop - at - 1))});
      end = stop + 1;
    } else if (code[at] == '\'' && !in_word) {
      end = closing(code, at) + 1;
    }
    end = std::min(end, code.size());
    line += static_cast<int>(std::ranges::count(code.substr(at, end - at), '\n'));
    at = end;
  }
  return found;
}

// Where `code` holds one of `names` as a whole literal, as "file:line: "name"".
Strings named(const std::string& file, std::string_view code, const Strings& names) {
  Strings found;
  for (const Literal& literal : literals(code)) {
    if (std::ranges::count(names, literal.text) == 0) continue;
    found.push_back(file + ":" + std::to_string(literal.line) + ": \"" + literal.text + "\"");
  }
  return found;
}

// Where `code` includes a file of this project that begins with none of `allowed`.
Strings upward(const std::string& file, std::string_view code, const Strings& allowed) {
  const Strings folders = {"attention_variants/", "lra/", "results/", "harness/", "tests/"};
  Strings found;
  std::istringstream in{std::string(code)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) continue;
    const size_t open = line.find_first_of("\"<", word);
    if (open == std::string::npos) continue;
    const std::string target =
        line.substr(open + 1, line.find_first_of("\">", open + 1) - open - 1);
    const auto begins = [&](const std::string& prefix) { return target.starts_with(prefix); };
    const bool ours = line[open] == '"' || std::ranges::any_of(folders, begins);
    if (ours && std::ranges::none_of(allowed, begins)) {
      found.push_back(file + ":" + std::to_string(number) + ": includes " + target);
    }
  }
  return found;
}

std::vector<fs::path> sources(const fs::path& folder) {
  const Strings extensions = {".cpp", ".h", ".cu", ".cuh"};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) {
      const std::vector<fs::path> inner = sources(entry.path());
      files.insert(files.end(), inner.begin(), inner.end());
    } else if (std::ranges::count(extensions, entry.path().extension().string()) > 0) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

// What `check(file, code)` finds in all files of a room.
template <class Check>
Strings scan(const std::string& room, Check check) {
  Strings found;
  const std::vector<fs::path> files = sources(fs::path(LRA_SOURCE_DIR) / room);
  EXPECT_GE(files.size(), 3u) << room;
  for (const fs::path& file : files) {
    const std::string code = read_file(file);
    const Strings here = check(file.lexically_relative(LRA_SOURCE_DIR).string(), code);
    found.insert(found.end(), here.begin(), here.end());
  }
  return found;
}

std::string lines(const Strings& found) {
  std::string text;
  for (const std::string& line : found) text += line + "\n";
  return text;
}

TEST(Rooms, IncludeNothingAboveThem) {
  const std::pair<std::string, Strings> rooms[] = {
      {"attention_variants", {"attention_variants/"}},
      {"lra", {"attention_variants/", "lra/", "embedded_"}},
      {"results", {"results/", "embedded_published.h"}},
      {"harness", {"attention_variants/", "lra/", "results/", "harness/", "embedded_"}},
  };
  for (const std::pair<std::string, Strings>& room : rooms) {
    const Strings found = scan(room.first, [&room](const std::string& file, std::string_view code) {
      return upward(file, code, room.second);
    });
    EXPECT_TRUE(found.empty()) << lines(found);
  }
}

TEST(Rooms, NameNoVariantOutsideAttentionVariants) {
  Strings names;
  for (const AttentionEntry* entry : attention_entries()) names.push_back(entry->info.name);
  ASSERT_GE(names.size(), 2u);
  for (const char* room : {"lra", "results", "harness"}) {
    const Strings found = scan(room, [&names](const std::string& file, std::string_view code) {
      return named(file, code, names);
    });
    EXPECT_TRUE(found.empty()) << lines(found);
  }
}

TEST(Rooms, NameNoTaskOutsideLra) {
  Strings names;
  for (const Task* known : tasks()) names.push_back(known->name);
  ASSERT_GE(names.size(), 1u);
  for (const char* room : {"attention_variants", "results", "harness"}) {
    const Strings found = scan(room, [&names](const std::string& file, std::string_view code) {
      return named(file, code, names);
    });
    EXPECT_TRUE(found.empty()) << lines(found);
  }
}

// The tests above can fail: what they look for is found where it stands.
TEST(Rooms, AForbiddenIncludeIsFound) {
  const std::string code =
      "// #include \"harness/a.h\"\n"
      "#include <vector>\n"
      "#include \"attention_variants/base/files.h\"\n"
      "  #  include \"harness/training/train.h\"\n"
      "#include <results/records/records.h>\n"
      "#include \"files.h\"\n";
  EXPECT_EQ(upward("planted.cpp", code, {"lra/"}),
            (Strings{"planted.cpp:4: includes harness/training/train.h",
                     "planted.cpp:5: includes results/records/records.h",
                     "planted.cpp:6: includes files.h"}));
}

TEST(Rooms, AQuotedNameIsFound) {
  const std::string code =
      "// says \"nystrom\"\n"
      "const char quote = '\"'; /* \"nystrom\"\n"
      "*/ if (name == \"nystrom\") return 30'000;\n"
      "help(\"as in nystrom[num_landmarks=32]\", \"\\\"nystrom\", \"https://a\");\n"
      "parse(R\"(\n"
      "  {\"attention\": \"nystrom\"})\");  \n"
      "use(\"standard\", \"nystroms\");\n";
  EXPECT_EQ(named("planted.cpp", code, {"nystrom", "standard"}),
            (Strings{"planted.cpp:3: \"nystrom\"", "planted.cpp:6: \"nystrom\"",
                     "planted.cpp:7: \"standard\""}));
}

}  // namespace
}  // namespace lra
