// A whole report from records: what `lra report` writes and prints.
#pragma once

#include <map>
#include <string>

#include "results/print/gnuplot.h"
#include "results/store/store.h"
#include "results/tables/accuracy_table.h"
#include "results/tables/fidelity_table.h"
#include "results/tables/profile_table.h"

namespace lra {

/// Names the files that attentions are made from in cells of profiles, steps and fidelity as the
/// accuracy tables name them: by hash, with the shortest name that a run gave it, or where no run
/// has it, one of those.
void name_files_alike(Records& records);

/// The tables of a report, a section each.
struct ReportTables {
  Table summary;
  std::vector<Table> accuracy, differences, curves, regimes, training, cost, detail, where,
      fidelity;
  std::vector<std::string> notes;  // that number_notes gathered
};
ReportTables report_tables(const Records& records);

/// Gathers the notes that stand below several tables (gather_notes).
void number_notes(ReportTables& tables);

/// All plots of a report, with one look for each attention.
std::vector<Plot> report_plots(const Records& records);

/// File name -> content: report.md (all tables, notes, machines, software and the files that could
/// not be used); accuracy.csv, memory_time.csv, training.csv, fidelity.csv, where.csv (long form)
/// and runs.csv (one row a run); accuracy.tex and memory_time.tex, for a column, and
/// differences.tex, memory_time_detail.tex, training.tex and fidelity.tex, for a page;
/// memory_time.json, all tables of memory and time; score-*.gp, tradeoff-*.gp, curves-*.gp,
/// profile-*.gp, where-*.gp and fidelity-*.gp, the plots as gnuplot scripts. A file is there only
/// where its records are. The same for a browser: make_pages (html_report.h).
std::map<std::string, std::string> make_report(const Records& records);

/// The extension of the scripts among them.
inline constexpr const char* kPlotScript = ".gp";

/// "3 runs, 20 profile cells, 0 fidelity cells.", and "2 step profiles" where there are some.
std::string counts_text(const Records& records);

/// Which data, machines and software the records are of.
std::vector<Table> provenance_tables(const Records& records);

/// The files that could not be used, with the reasons.
Table bad_files_table(const Records& records);

/// The summary, the accuracy tables, the memory/time tables, those of where a step's time goes by
/// kind and part, then the fidelity tables, for a terminal of `width` columns, 0 = as wide as they
/// are; "" without records.
std::string summary_text(const Records& records, size_t width = 0);

/// One line a file that could not be used: "<path>: <reason>".
std::string bad_files_text(const Records& records);

}  // namespace lra
