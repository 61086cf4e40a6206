#include "results/report/html_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <initializer_list>
#include <vector>

#include "results/plots/plots.h"
#include "results/print/html.h"
#include "results/records/file_names.h"
#include "results/report/report.h"
#include "results/store/store.h"

namespace lra {
namespace {

std::string run_file(const std::string& name) { return "runs/" + name + ".html"; }

using Drawn = std::map<std::string, std::string>;

// The pictures of the plots whose names begin so, in order.
class Figures {
 public:
  Figures(const std::vector<Plot>& plots, const Drawn& drawn) : plots_(plots), drawn_(drawn) {}

  std::vector<std::string> of(const std::string& prefix) const {
    std::vector<std::string> all;
    for (const Plot& plot : plots_) {
      const auto it = drawn_.find(plot.name);
      if (plot.name.starts_with(prefix) && it != drawn_.end())
        all.push_back(svg_figure(it->second, alt_text(plot)));
    }
    return all;
  }

 private:
  const std::vector<Plot>& plots_;
  const Drawn& drawn_;
};

std::string all_tables(const std::vector<Table>& tables) {
  std::string html;
  for (const Table& table : tables) html += to_html(table);
  return html;
}

// "image, CIFAR-10 (JPEG)"
std::string task_text(const Result& r) {
  const std::string kind = r.data.kind();
  return kind.empty() ? r.task : r.task + ", " + kind;
}

std::string runs_html(const Records& records, const std::vector<std::string>& names) {
  std::string html =
      "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">run</th>"
      "<th scope=\"col\">task</th><th scope=\"col\">attention</th>"
      "<th scope=\"col\">protocol</th><th scope=\"col\" class=\"n\">seed</th>"
      "<th scope=\"col\">status</th><th scope=\"col\" class=\"n\">test %</th>"
      "<th scope=\"col\" class=\"n\">steps/s</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < names.size(); ++i) {
    const Result& r = records.results[i];
    html += fmt::format(
        "<tr><th scope=\"row\"><a "
        "href=\"{8}\">{0}</a></th><td>{1}</td><td>{2}</td><td>{3}</td>"
        "<td class=\"n\">{4}</td><td>{5}</td><td class=\"n\">{6}</td><td "
        "class=\"n\">{7}</td></tr>\n",
        names[i], html_text(task_text(r)), html_text(r.attention.label), html_text(r.protocol),
        r.seed, to_string(r.status), r.test ? fmt::format("{:.2f}", 100 * r.test->accuracy) : "–",
        r.training.steps_per_second ? short_number(*r.training.steps_per_second) : "–",
        run_file(names[i]));
  }
  return html + "</tbody></table></div>\n";
}

// Links to the files that make_report writes beside the page.
std::string links_html(const Records& records, const ReportTables& tables) {
  std::vector<std::string> links;
  const auto add = [&links](bool there, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (there) links.push_back(fmt::format("<a href=\"{0}\">{0}</a>", name));
    }
  };
  add(!records.results.empty(), {"accuracy.csv", "accuracy.tex", "runs.csv"});
  add(!tables.differences.empty(), {"differences.tex"});
  add(!tables.training.empty(), {"training.csv", "training.tex"});
  add(!records.profiles.empty(), {"memory_time.csv", "memory_time.tex", "memory_time.json"});
  add(!tables.detail.empty(), {"memory_time_detail.tex"});
  add(!records.where.empty(), {"where.csv"});
  add(!records.fidelity.empty(), {"fidelity.csv", "fidelity.tex"});
  add(true, {"report.md"});
  return fmt::format("<p class=\"dim\">The numbers as files: {}</p>\n", fmt::join(links, ", "));
}

class Page {
 public:
  void section(const char* id, const char* title, const std::string& html) {
    if (html.empty()) return;
    nav_ += fmt::format("<a href=\"#{}\">{}</a>\n", id, title);
    body_ += fmt::format("<h2 id=\"{}\">{}</h2>\n{}", id, title, html);
  }
  std::string html(const std::string& head) const {
    return html_page("Long Range Arena report", "<h1>Long Range Arena report</h1>\n" + head +
                                                    "<nav>\n" + nav_ + "</nav>\n" + body_);
  }

 private:
  std::string nav_, body_;
};

}  // namespace

std::string run_plots_script(const Records& records) {
  const std::vector<std::string> names = page_names(records.results);
  std::string script;
  for (size_t i = 0; i < names.size(); ++i) {
    for (const Plot& plot : run_plots(records.results[i], names[i]))
      script += plot_script(plot) + "reset session\n";
  }
  return script;
}

std::vector<std::string> page_files(const Records& records) {
  std::vector<std::string> files{kReportPage};
  for (const std::string& name : page_names(records.results)) files.push_back(run_file(name));
  return files;
}

std::map<std::string, std::string> make_pages(const Records& records, const Drawn& drawn,
                                              const SampleReader& samples) {
  const auto& results = records.results;
  const std::vector<std::string> names = page_names(results);
  ReportTables tables = report_tables(records);
  const std::string links = links_html(records, tables);
  number_notes(tables);
  const std::vector<Plot> plots = report_plots(records);
  const Figures figures(plots, drawn);
  const auto below = [&figures](const char* prefix) {
    return fmt::format("{}", fmt::join(figures.of(prefix), ""));
  };
  std::map<std::string, std::string> pages;
  Page page;
  page.section("score", "Score, speed and memory", below("score-"));
  page.section("accuracy", "Accuracy", all_tables(tables.accuracy));
  page.section("differences", "Differences in accuracy", all_tables(tables.differences));
  page.section("tradeoff", "Accuracy against cost", figure_row(figures.of("tradeoff-")));
  page.section("curves", "Learning curves",
               figure_row(figures.of("curves-")) + all_tables(tables.curves));
  page.section("other-regimes", "Published under other regimes", all_tables(tables.regimes));
  page.section("training", "Training cost", all_tables(tables.training));
  page.section("memory-time", "Memory and time",
               all_tables(tables.cost) + below("profile-") + all_tables(tables.detail));
  page.section("where", "Where a step's time goes",
               figure_row(figures.of("where-")) + all_tables(tables.where));
  page.section("fidelity", "Fidelity to softmax attention",
               all_tables(tables.fidelity) + below("fidelity-"));
  page.section("runs", "Runs", names.empty() ? "" : runs_html(records, names));
  page.section("provenance", "Provenance", all_tables(provenance_tables(records)));
  page.section("bad", "Files that could not be used",
               records.bad.empty() ? "" : to_html(bad_files_table(records)));
  page.section("notes", "Notes", notes_html(tables.notes));

  std::string head = "<div class=\"summary\">\n" + to_html(tables.summary) + links + "</div>\n";
  if (!records.bad.empty())
    head += fmt::format(
        "<p class=\"warn\">{} files or runs could not be used, or not wholly: "
        "<a href=\"#bad\">which, and why</a>.</p>\n",
        records.bad.size());
  pages[kReportPage] = page.html(head);
  for (size_t i = 0; i < names.size(); ++i)
    pages[run_file(names[i])] = run_page(results[i], names[i], drawn, samples);
  return pages;
}

}  // namespace lra
