// The task `retrieval`: AAN's pairs from LRA's files, and the registration. See retrieval.h.
#include "lra/tasks/retrieval/retrieval.h"

#include <fmt/format.h>

#include <unordered_map>

#include "attention_variants/base/text.h"
#include "lra/data/byte_tokens.h"
#include "lra/data/reading.h"
#include "lra/tasks/text/imdb.h"

namespace lra::retrieval {
namespace {

constexpr const char* kTexts = "aan_texts.tsv";

std::string file_of(const std::string& split) {
  return "new_aan_pairs." + (split == "dev" ? "eval" : split) + ".tsv";
}

std::vector<std::string_view> columns_of(std::string_view row) {
  std::vector<std::string_view> columns;
  for (;;) {
    const size_t tab = row.find('\t');
    columns.push_back(row.substr(0, tab));
    if (tab == std::string_view::npos) return columns;
    row.remove_prefix(tab + 1);
  }
}

int64_t label_of(std::string_view text) {
  const double value = whole_number<double>(text).value_or(-1);
  if (value != 0 && value != 1)
    throw Error("the label should be 0 or 1 (or 0.0, 1.0), not '" + printable(text, 40) + "'");
  return value == 1 ? 1 : 0;
}

// Whether a text stands as in LRA's files, as Python prints bytes: b'...' or b"...". The end of a
// long one may have been cut off.
bool is_bytes_literal(std::string_view text) {
  return text.size() >= 3 && text[0] == 'b' && (text[1] == '\'' || text[1] == '"') &&
         (text.size() >= kLongest || text.back() == text[1]);
}

// Rows of three columns, until all texts are known.
struct Pair {
  int64_t label = 0;
  std::string ids[2];
  std::string where;
};

// A plain text becomes one as in LRA's files, which all of the data are.
std::vector<uint16_t> read_paper(std::string_view text) {
  if (text.empty()) return {};
  return byte_ids(is_bytes_literal(text) ? text : bytes_literal(text), kLongest);
}

struct Rows {
  SplitWriter out{/*inputs=*/2};
  int64_t texts = 0, not_literals = 0;
  std::vector<Pair> without_text;
  int64_t size() const { return out.size() + static_cast<int64_t>(without_text.size()); }

  void add(std::string_view text) {
    if (text.empty()) throw Error("a text is empty");
    out.tokens(byte_ids(text, kLongest));
    ++texts;
    if (!is_bytes_literal(text)) ++not_literals;
  }
};

// Throws Error without the place.
void read_row(std::string_view row, const std::string& where, Rows& rows) {
  const std::vector<std::string_view> columns = columns_of(row);
  const bool first = rows.size() == 0, whole = columns.size() == 5;
  if (columns.size() != 3 && !whole) {
    throw Error(
        "expected 5 columns (label, id1, id2, text1, text2) or 3 (label, id1, id2) separated by "
        "tabs, not " +
        std::to_string(columns.size()));
  }
  if (!first && whole != rows.without_text.empty()) {
    throw Error("expected " + std::string(whole ? "3" : "5") +
                " columns as in the rows above, not " + std::to_string(columns.size()));
  }
  const int64_t label = label_of(columns[0]);
  if (whole) {
    rows.add(columns[3]);
    rows.add(columns[4]);
    rows.out.label(label);
  } else {
    rows.without_text.push_back({.label = label,
                                 .ids = {std::string(columns[1]), std::string(columns[2])},
                                 .where = where});
  }
}

using Texts = std::unordered_map<std::string, std::string>;  // by id

void read_texts(SourceFile& file, Texts& texts) {
  texts.clear();
  SourceLines lines(file);
  for (std::string line; lines.next(line);) {
    const size_t tab = line.find('\t');
    if (tab == 0 || tab == std::string::npos || tab + 1 == line.size()) {
      throw Error(lines.where() + ": expected an id and a text separated by a tab");
    }
    if (!texts.emplace(line.substr(0, tab), line.substr(tab + 1, kLongest)).second) {
      throw Error(lines.where() + ": there is a text of '" + printable(line.substr(0, tab), 40) +
                  "' above");
    }
  }
}

// Gives the rows of three columns their texts.
void join(Rows& rows, const Texts& texts) {
  for (const Pair& pair : rows.without_text) {
    for (const std::string& id : pair.ids) {
      const auto it = texts.find(id);
      if (it == texts.end()) {
        throw Error(pair.where + ": " +
                    (texts.empty()
                         ? "there are 3 columns, so the texts should be in a file " +
                               std::string(kTexts) +
                               " of the same source (id, tab, text; a document a line), "
                               "and there is none"
                         : std::string(kTexts) + " has no text of '" + printable(id, 40) + "'"));
      }
      rows.add(it->second);
    }
    rows.out.label(pair.label);
  }
}

constexpr std::array<int64_t, 3> kPublic = {147'086, 18'090, 17'437};

void prepare_retrieval(const PrepareOptions& options) {
  refuse_other_options(options, "retrieval", {"synthetic", seed_if(options.synthetic)});
  if (options.source.empty()) {
    throw UsageError(
        "retrieval needs --source: the folder or archive of new_aan_pairs.{train,eval,test}.tsv "
        "(LRA's lra_release.gz as it is, say); or, with --synthetic, the film reviews of "
        "aclImdb_v1.tar.gz for a labelled stand-in");
  }
  const auto [splits, files] = options.synthetic ? make_stand_in(options) : read_tsv(options);
  Manifest manifest;
  manifest.task = "retrieval";
  manifest.source = (options.synthetic ? "synthetic stand-in of IMDB reviews, from "
                                       : "AAN pairs (LRA's TSV), from ") +
                    source_name(options);
  manifest.synthetic = options.synthetic;
  manifest.generator = options.synthetic ? "retrieval-stand-in/3" : "retrieval-tsv/1";
  manifest.vocabulary = kByteVocabulary;
  manifest.classes = 2;
  manifest.inputs = 2;
  if (options.synthetic) manifest.split = text::kSplit;
  manifest.members = files.members;
  manifest.notes = files.notes;
  if (!options.synthetic) {
    for (std::string& note : notes_of_rows(splits, options, kPublic))
      manifest.notes.push_back(std::move(note));
  }
  if (options.synthetic) manifest.options["seed"] = options.seed;
  for (const char* split : kSplits) manifest.options[split] = splits.at(split).size();
  write_prepared(options.out, manifest, splits);
}

[[maybe_unused]] const bool retrieval_registered = register_task({
    .name = "retrieval",
    .title = "Retrieval",
    .classes = 2,
    .vocabulary = kByteVocabulary,
    .inputs = 2,
    .length = 4096,
    .dev = 18'090,
    .public_data = {{"train", kPublic[0]}, {"dev", kPublic[1]}, {"test", kPublic[2]}},
    .description = "does one of two papers cite the other? ACL Anthology, byte by byte",
    .source = "the folder or archive of new_aan_pairs.{train,eval,test}.tsv, as lra_release.gz",
    .stand_in = "text",
    .prepare = prepare_retrieval,
    .render = render_bytes,
    .read_text = read_paper,
});

}  // namespace

Pairs read_tsv(const PrepareOptions& options) {
  const std::map<std::string, int64_t> limits = {
      {"train", options.train}, {"dev", options.dev}, {"test", options.test}};
  std::map<std::string, Rows> rows;
  Texts texts;
  const auto read_split = [&](SourceFile& file, const std::string& split) {
    SourceLines lines(file);
    Rows& of_split = rows[split] = {};
    const int64_t limit = limits.at(split);
    std::string line;
    while ((limit < 0 || of_split.size() < limit) && lines.next(line)) {
      try {
        read_row(line, lines.where(), of_split);
      } catch (const Error& error) {
        throw Error(lines.where() + ": " + error.what());
      }
    }
    check_rows(of_split.size(), limit, file.where(), split);
  };
  const Source source(options.source);
  std::vector<std::string> names;
  for (const char* split : kSplits) names.push_back(file_of(split));
  NamedFiles files = visit_named(
      source, names, /*optional=*/{kTexts}, "retrieval",
      [&](SourceFile& file) {
        for (const char* split : kSplits) {
          if (file.base() == file_of(split)) read_split(file, split);
        }
        if (file.base() == kTexts) read_texts(file, texts);
      },
      visit_options(options));
  Pairs read{.splits = {}, .files = std::move(files)};
  for (auto& [split, of_split] : rows) {
    join(of_split, texts);
    if (of_split.not_literals > 0)
      read.files.notes.push_back(fmt::format(
          "WARNING: {} of {} texts of {} do not stand as Python prints bytes (b'...'), as those of "
          "LRA's files do: they were decoded, or a row is cut short",
          of_split.not_literals, of_split.texts, split));
    read.splits[split] = std::move(of_split.out);
  }
  return read;
}

}  // namespace lra::retrieval
