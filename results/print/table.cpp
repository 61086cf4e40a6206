// The plain printers of the table model; html.cpp, latex.cpp and terminal.cpp hold the others.
#include "results/print/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "attention_variants/base/utf8.h"

namespace lra {
namespace {

size_t width_of(uint32_t code) {
  if ((code >= 0x300 && code <= 0x36F) || (code >= 0x200B && code <= 0x200F) ||
      (code >= 0xFE00 && code <= 0xFE0F))
    return 0;
  const bool wide = (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
                    (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
                    (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
                    (code >= 0x1F300 && code <= 0x1FAFF) || (code >= 0x20000 && code <= 0x3FFFD);
  return wide ? 2 : 1;
}

std::string cell(const std::vector<std::string>& row, size_t column) {
  return column < row.size() ? row[column] : std::string();
}

std::string pad(const std::string& text, size_t width, Align align) {
  const size_t have = display_width(text);
  const std::string space(width > have ? width - have : 0, ' ');
  return align == Align::kLeft ? text + space : space + text;
}

std::string markdown(std::string_view raw) {
  std::string result;
  const std::string text = one_line(raw);
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '\\':
      case '|':
      case '`':
      case '*':
      case '_':
      case '[':
      case ']':
      case '~':
      case '!':
      case '$':
        result += '\\';
        result += text[i];
        break;
      case ':':  // a bare address would become a link
        result += text.compare(i, 3, "://") == 0 ? "&#58;" : ":";
        break;
      case 'w':
        result += text.compare(i, 4, "www.") == 0 ? "&#119;" : "w";
        break;
      default:
        result += text[i];
    }
  }
  return result;
}

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && end == text.c_str() + text.size();
}

std::string csv(const std::string& raw) {
  std::string text = one_line(raw);
  if (!text.empty() && std::string_view("=+-@").find(text[0]) != std::string_view::npos &&
      !is_number(text)) {
    text.insert(text.begin(), '\'');
  }
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const Utf8Point point = decode_utf8(text, at);
    if (!point.valid) {
      result += "\xEF\xBF\xBD";
    } else if (point.code == '\n' || point.code == '\t') {
      result += ' ';
    } else if (is_control(point.code)) {
      result += '?';
    } else {
      result += text.substr(at, point.bytes);
    }
    at += point.bytes;
  }
  return result;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Point point = decode_utf8(text, at);
    width += width_of(point.code);
    at += point.bytes;
  }
  return width;
}

std::string cut_in_the_middle(std::string_view text, size_t width) {
  if (display_width(text) <= width) return std::string(text);
  const size_t room = (width - 1) / 2;  // of each end
  size_t begin = 0, used = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Point point = decode_utf8(text, at);
    used += width_of(point.code);
    if (used > room) break;
    begin = at += point.bytes;
  }
  size_t end = begin;
  while (display_width(text.substr(end)) > room) end += decode_utf8(text, end).bytes;
  return std::string(text.substr(0, begin)) + "…" + std::string(text.substr(end));
}

bool has_headers(const Table& table) {
  return std::ranges::any_of(table.columns,
                             [](const Column& column) { return !column.header.empty(); });
}

std::string markdown_text(std::string_view text) { return markdown(text); }

std::string see_text(const Table& table) {
  std::string text;
  for (const size_t number : table.see)
    text += fmt::format("{}[{}]", text.empty() ? "see " : ", ", number);
  return text;
}

std::vector<std::string> gather_notes(std::span<Table* const> tables) {
  std::map<std::string, size_t> tables_of;
  for (const Table* table : tables) {
    for (const std::string& note : std::set(table->notes.begin(), table->notes.end()))
      ++tables_of[note];
  }
  const auto is_common = [&](const std::string& note) {
    return tables_of.at(note) > 1 && !note.starts_with("WARNING");
  };
  std::vector<std::string> gathered;
  std::map<std::string, size_t> numbers;
  for (Table* table : tables) {
    for (const std::string& note : table->notes) {
      if (!is_common(note)) continue;
      const auto [it, is_new] = numbers.try_emplace(note, gathered.size() + 1);
      if (is_new) gathered.push_back(note);
      table->see.push_back(it->second);
    }
    std::erase_if(table->notes, is_common);
  }
  return gathered;
}

std::string to_text(const Table& table) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = display_width(one_line(table.columns[c].header));
    for (const auto& row : table.rows)
      width = std::max(width, display_width(one_line(cell(row, c))));
    widths.push_back(width);
  }
  const auto line = [&](const auto& content) {
    std::string text;
    for (size_t c = 0; c < widths.size(); ++c) {
      text.append(c == 0 ? "" : "  ")
          .append(pad(one_line(content(c)), widths[c], table.columns[c].align));
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string result = table.title.empty() ? "" : one_line(table.title) + "\n";
  if (has_headers(table)) {
    result += line([&](size_t c) { return table.columns[c].header; });
    result += line([&](size_t c) { return std::string(widths[c], '-'); });
  }
  for (const auto& row : table.rows) result += line([&](size_t c) { return cell(row, c); });
  for (const std::string& note : table.notes) result += fmt::format("  * {}\n", one_line(note));
  if (!table.see.empty()) result += fmt::format("  * {}\n", see_text(table));
  return result;
}

std::string to_markdown(const Table& table) {
  std::string result = table.title.empty() && !has_headers(table)
                           ? "|"
                           : fmt::format("**{}**\n\n|", markdown(table.title));
  for (const Column& column : table.columns)
    result += fmt::format(" {} |", markdown(column.header));
  result += "\n|";
  for (const Column& column : table.columns)
    result += column.align == Align::kLeft ? " :--- |" : " ---: |";
  result += "\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    result += "|";
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const char* mark = table.bold.contains({r, c}) ? "**" : "";
      result += fmt::format(" {0}{1}{0} |", mark, markdown(cell(table.rows[r], c)));
    }
    result += "\n";
  }
  if (!table.notes.empty() || !table.see.empty()) result += "\n";
  for (const std::string& note : table.notes) result += fmt::format("- {}\n", markdown(note));
  if (!table.see.empty()) result += fmt::format("- {}\n", markdown(see_text(table)));
  return result;
}

std::string short_number(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size >= 1e9 || size < 1e-4) return fmt::format("{:.2e}", value);
  return size >= 100  ? fmt::format("{:.0f}", value)
         : size >= 10 ? fmt::format("{:.1f}", value)
                      : fmt::format("{:.3g}", value);
}

std::string as_percent(const std::optional<double>& percent) {
  return percent ? fmt::format("{:.2f}", *percent) : "–";
}

std::string and_more(size_t all) { return all > 1 ? fmt::format(" (and {} more)", all - 1) : ""; }

std::vector<std::string> first_of_each(const std::map<std::string, std::set<std::string>>& texts) {
  std::vector<std::string> lines;
  for (const auto& [shared, all] : texts)
    lines.push_back(fmt::format("{}: {}{}", shared, *all.begin(), and_more(all.size())));
  return lines;
}

std::string exact_number(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string to_csv(const Table& table) {
  std::string result;
  for (size_t c = 0; c < table.columns.size(); ++c)
    result.append(c == 0 ? "" : ",").append(csv(table.columns[c].header));
  result += "\r\n";
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < table.columns.size(); ++c)
      result.append(c == 0 ? "" : ",").append(csv(cell(row, c)));
    result += "\r\n";
  }
  return result;
}

}  // namespace lra
