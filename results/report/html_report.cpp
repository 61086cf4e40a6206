#include "results/report/html_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "results/print/html.h"
#include "results/records/store.h"
#include "results/report/report.h"
#include "results/tables/published_table.h"
#include "results/tables/run_plots.h"

namespace lra {
namespace {

using Drawn = std::map<std::string, std::string>;

// The figures of the plots whose names begin so, in order.
std::vector<std::string> figures(const Drawn& drawn, const std::string& prefix,
                                 const std::string& what) {
  std::vector<std::string> all;
  for (auto it = drawn.lower_bound(prefix); it != drawn.end() && it->first.starts_with(prefix);
       ++it)
    all.push_back(svg_figure(it->second, fmt::format("{}: {}", what, it->first)));
  return all;
}

std::string all_tables(const std::vector<Table>& tables) {
  std::string html;
  for (const Table& table : tables) html += to_html(table);
  return html;
}

std::string runs_html(const Records& records, const std::vector<std::string>& names) {
  std::string html =
      "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>run</th><th>task</th>"
      "<th>attention</th><th>protocol</th><th class=\"n\">seed</th><th>status</th>"
      "<th class=\"n\">test %</th><th class=\"n\">steps/s</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < names.size(); ++i) {
    const Result& r = records.results[i];
    html += fmt::format(
        "<tr><td><a href=\"runs/{0}.html\">{0}</a></td><td>{1}</td><td>{2}</td><td>{3}</td>"
        "<td class=\"n\">{4}</td><td>{5}</td><td class=\"n\">{6}</td><td "
        "class=\"n\">{7}</td></tr>\n",
        names[i], html_text(r.task), html_text(r.attention.label), html_text(r.protocol), r.seed,
        to_string(r.status), r.test ? fmt::format("{:.2f}", 100 * r.test->accuracy) : "–",
        r.training.steps_per_second ? short_number(*r.training.steps_per_second) : "–");
  }
  return html + "</tbody></table></div>\n";
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

std::map<std::string, std::string> make_pages(const Records& records, const Drawn& drawn,
                                              const SampleReader& samples) {
  const auto& results = records.results;
  const std::vector<std::string> names = page_names(results);
  std::map<std::string, std::string> pages;
  Page page;
  page.section("accuracy", "Accuracy",
               all_tables(accuracy_tables(results)) +
                   all_tables(published_difference_tables(results)) +
                   all_tables(difference_tables(results)));
  page.section("tradeoff", "Accuracy against cost",
               figure_row(figures(drawn, "tradeoff-", "accuracy against cost")));
  page.section("curves", "Learning curves",
               figure_row(figures(drawn, "curves-", "learning curves")));
  page.section("other-regimes", "Published under other regimes",
               results.empty() ? "" : all_tables(other_regime_tables()));
  page.section("training", "Training cost", all_tables(training_tables(results)));
  page.section(
      "memory-time", "Memory and time",
      all_tables(memory_time_tables(records.profiles)) +
          fmt::format("{}", fmt::join(figures(drawn, "profile-", "against sequence length"), "")) +
          all_tables(profile_tables(records.profiles)));
  page.section("fidelity", "Fidelity to softmax attention",
               all_tables(fidelity_tables(records.fidelity)) +
                   fmt::format("{}", fmt::join(figures(drawn, "fidelity-", "fidelity"), "")));
  page.section("runs", "Runs", names.empty() ? "" : runs_html(records, names));
  page.section("provenance", "Provenance", all_tables(provenance_tables(records)));
  page.section("bad", "Files that could not be used",
               records.bad.empty() ? "" : to_html(bad_files_table(records)));

  std::string head = "<p class=\"dim\">" + counts_text(records) + "</p>\n";
  if (!records.bad.empty())
    head += fmt::format(
        "<p class=\"warn\">{} files could not be used, or not wholly: "
        "<a href=\"#bad\">which, and why</a>.</p>\n",
        records.bad.size());
  pages["report.html"] = page.html(head);
  for (size_t i = 0; i < names.size(); ++i)
    pages["runs/" + names[i] + ".html"] = run_page(results[i], names[i], drawn, samples);
  return pages;
}

}  // namespace lra
