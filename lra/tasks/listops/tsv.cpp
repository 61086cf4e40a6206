// ListOps: LRA's own files, basic_{train,val,test}.tsv: `Source` and `Target` separated by a tab,
// no quoting, CRLF or LF.
#include <memory>
#include <vector>

#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/files.h"
#include "attention_variants/base/text.h"
#include "lra/data/reading.h"
#include "lra/formats/copies.h"
#include "lra/tasks/listops/listops.h"

namespace lra::listops {
namespace {

namespace fs = std::filesystem;

constexpr std::pair<const char*, const char*> kFiles[] = {
    {"train", "basic_train.tsv"}, {"dev", "basic_val.tsv"}, {"test", "basic_test.tsv"}};

// Adds one row. Throws Error without the place.
void read_row(std::string_view row, SplitWriter& out) {
  const size_t tab = row.find('\t');
  if (tab == std::string_view::npos || row.find('\t', tab + 1) != std::string_view::npos) {
    throw Error("expected 2 columns (Source, Target) separated by a tab, not " +
                std::to_string(1 + std::ranges::count(row, '\t')));
  }
  const std::string_view target = row.substr(tab + 1);
  const int64_t label = whole_number<int64_t>(target).value_or(-1);
  if (label < 0 || label > 9)
    throw Error("the label should be an integer from 0 to 9, not '" + printable(target, 40) + "'");
  const std::vector<uint16_t> ids = from_source(row.substr(0, tab));
  check_value(ids, label);
  out.tokens(ids);
  out.label(label);
}

SplitWriter read_split(SourceFile& file, int64_t limit, const std::string& split) {
  SplitWriter out;
  SourceLines lines(file);
  std::string row;
  if (lines.next(row) && row != "Source\tTarget") {
    throw Error(lines.where() + ": expected the header 'Source<tab>Target', not '" +
                printable(row, 40) + "'");
  }
  while ((limit < 0 || out.size() < limit) && lines.next(row)) {
    try {
      read_row(row, out);
    } catch (const Error& error) {
      throw Error(lines.where() + ": " + error.what());
    }
  }
  check_rows(out.size(), limit, file.where(), split);
  return out;
}

}  // namespace

TsvFiles read_tsv(const PrepareOptions& options) {
  const std::array<int64_t, 3> limits = options.counts();
  std::map<std::string, SplitWriter> splits;
  NamedFiles files = visit_named(
      Source(options.source), {kFiles[0].second, kFiles[1].second, kFiles[2].second},
      /*optional=*/{}, "ListOps",
      [&](SourceFile& file) {
        for (size_t i = 0; i < 3; ++i) {
          const auto& [split, name] = kFiles[i];
          if (file.base() == name) splits[split] = read_split(file, limits[i], split);
        }
      },
      visit_options(options));
  return {.splits = std::move(splits), .files = std::move(files)};
}

namespace {

// Of each split, in one folder; none of them before all are written.
void write_files(const PreparedData& data, const fs::path& out) {
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (const auto& [name, file_name] : kFiles) {
    const Split& split = data.split(name);
    AtomicFile& file = *files.emplace_back(std::make_unique<AtomicFile>(out / file_name));
    std::string text = "Source\tTarget\r\n";
    for (int64_t i = 0; i < split.size(); ++i) {
      text += to_source(split.ids(i)) + "\t" + std::to_string(split.label(i)) + "\r\n";
      if (text.size() < (1 << 20)) continue;
      file.write(text);
      text.clear();
    }
    file.write(text);
  }
  for (const auto& file : files) file->commit();
}

}  // namespace

void write_tsv(const PreparedData& data, const fs::path& out) {
  std::error_code none;
  if (!fs::exists(fs::symlink_status(out, none))) {  // whole, or not at all
    AtomicFolder folder(out);
    write_files(data, folder.path());
    return folder.commit();
  }
  if (const std::string trouble = make_folders(out); !trouble.empty())
    throw Error("cannot write " + out.string() + ": " + trouble);
  for (const auto& [name, file_name] : kFiles) {
    if (fs::exists(fs::symlink_status(out / file_name, none)))  // a link that leads nowhere, too
      throw Error((out / file_name).string() +
                  " is there already; remove it, or choose another --out");
  }
  write_files(data, out);
}

}  // namespace lra::listops
