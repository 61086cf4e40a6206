#include "tests/harness/rooms.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

namespace lra::rooms {
namespace {

namespace fs = std::filesystem;

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

struct Include {
  int line;
  std::string target;
  bool quoted;
};

std::vector<Include> includes(std::string_view code) {
  std::vector<Include> found;
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
    const size_t close = line.find_first_of("\">", open + 1);
    found.push_back({number, line.substr(open + 1, close - open - 1), line[open] == '"'});
  }
  return found;
}

std::string at_line(const std::string& file, int line) { return file + ":" + std::to_string(line); }

}  // namespace

Strings named(const std::string& file, std::string_view code, const Strings& names) {
  Strings found;
  for (const Literal& literal : literals(code)) {
    if (std::ranges::count(names, literal.text) == 0) continue;
    found.push_back(file + ":" + std::to_string(literal.line) + ": \"" + literal.text + "\"");
  }
  return found;
}

std::string room_of(const House& house, const std::string& path) {
  if (path.starts_with("embedded_")) return "generated";
  std::string best;
  for (const auto& [room, others] : house.rooms) {
    const bool inside = path == room || path.starts_with(room + "/");
    if (inside && room.size() > best.size()) best = room;
  }
  return best;
}

Strings undeclared_includes(const House& house, const Edges& allowed) {
  Strings found;
  for (const auto& [file, code] : house.files) {
    const std::string from = room_of(house, file);
    if (from.empty()) continue;  // undeclared_rooms() finds it
    for (const Include& include : includes(code)) {
      const std::string to = room_of(house, include.target);
      if (to.empty() && !include.quoted) continue;  // a library's
      const bool declared = to == from || to == kBase ||
                            std::ranges::count(house.rooms.at(from), to) > 0 ||
                            allowed.contains({from, to});
      if (to.empty() || !declared)
        found.push_back(at_line(file, include.line) + ": includes " + include.target);
    }
  }
  return found;
}

Strings unused_edges(const House& house) {
  Edges used;
  for (const auto& [file, code] : house.files) {
    for (const Include& include : includes(code))
      used.emplace(room_of(house, file), room_of(house, include.target));
  }
  Strings found;
  for (const auto& [room, others] : house.rooms) {
    for (const std::string& other : others) {
      if (!used.contains({room, other})) found.push_back(room + ": " + other);
    }
  }
  return found;
}

Strings undeclared_rooms(const House& house) {
  Strings found;
  for (const auto& [file, code] : house.files) {
    if (!house.rooms.contains(fs::path(file).parent_path().string())) found.push_back(file);
  }
  for (const auto& [room, others] : house.rooms) {
    for (const std::string& other : others) {
      if (!house.rooms.contains(other)) found.push_back(room + ": " + other);
    }
  }
  return found;
}

Strings circles(const House& house) {
  Strings found;
  for (const auto& [start, first] : house.rooms) {
    std::set<std::string> seen;
    Strings open = first;
    while (!open.empty()) {
      const std::string room = open.back();
      open.pop_back();
      if (!seen.insert(room).second || !house.rooms.contains(room)) continue;
      const Strings& next = house.rooms.at(room);
      open.insert(open.end(), next.begin(), next.end());
    }
    if (seen.contains(start)) found.push_back(start);
  }
  return found;
}

Strings ill_sized(const House& house) {
  std::map<std::string, std::set<std::string>> units;
  std::map<std::string, int> counts;
  for (const auto& [file, code] : house.files) {
    const fs::path path = file;
    units[path.parent_path()].insert(path.stem());
    ++counts[path.parent_path()];
  }
  Strings found;
  for (const auto& [folder, names] : units) {
    if (names.size() < 2) found.push_back(folder + ": one unit");
    if (counts[folder] > 30)
      found.push_back(folder + ": " + std::to_string(counts[folder]) + " files");
  }
  return found;
}

Strings torch_includes(const House& house) {
  Strings found;
  for (const auto& [file, code] : house.files) {
    const Strings plain = {kBase + "/", kKernels + "/", kCudaKernels + "/", "results/"};
    if (std::ranges::none_of(plain, [&](const auto& p) { return file.starts_with(p); })) continue;
    for (const Include& include : includes(code)) {
      const Strings torch = {"torch/", "ATen/", "c10/", "attention_variants/torch.h"};
      if (std::ranges::any_of(torch, [&](const auto& p) { return include.target.starts_with(p); }))
        found.push_back(at_line(file, include.line) + ": includes " + include.target);
    }
  }
  return found;
}

Strings named_outside(const House& house, const std::string& folder, const Strings& names) {
  Strings found;
  for (const auto& [file, code] : house.files) {
    if (file.starts_with(folder)) continue;
    const Strings here = named(file, code, names);
    found.insert(found.end(), here.begin(), here.end());
  }
  return found;
}

std::map<std::string, Strings> parse_rooms(const std::string& text) {
  std::map<std::string, Strings> rooms;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    std::istringstream others(line.substr(colon + 1));
    Strings& of_room = rooms[line.substr(0, colon)];
    for (std::string other; others >> other;) of_room.push_back(other);
  }
  return rooms;
}

}  // namespace lra::rooms
