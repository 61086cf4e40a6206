#include "results/report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "attention_variants/base/text.h"
#include "results/analysis/accuracy_cells.h"
#include "results/plots/plots.h"
#include "results/print/html.h"
#include "results/records/json_line.h"

namespace lra {
namespace {

constexpr size_t kMistakes = 8;
constexpr size_t kMostClasses = 20;  // of a confusion matrix that can be read
constexpr size_t kMostBytes = 1500;  // of a sample shown
constexpr int64_t kPictureWidth = 192;

Table facts(const char* title, const std::vector<std::pair<std::string, std::string>>& rows) {
  Table table{.title = title, .columns = {{"", Align::kLeft}, {"", Align::kLeft}}};
  for (const auto& [key, value] : rows) {
    if (!value.empty()) table.rows.push_back({key, value});
  }
  return table;
}

std::string accuracy_text(const std::optional<Accuracy>& accuracy) {
  if (!accuracy) return "";
  return fmt::format("{:.2f} % [{:.2f}, {:.2f}], {} of {}", 100 * accuracy->accuracy,
                     100 * accuracy->ci95.low, 100 * accuracy->ci95.high, accuracy->correct,
                     accuracy->count);
}

std::string number(const std::optional<double>& value) { return value ? short_number(*value) : ""; }
std::string number(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string contract_text(const std::optional<ContractRecord>& contract) {
  if (!contract) return "";
  if (contract->failed.empty()) return contract->count();
  return fmt::format("{}; {}", contract->count(), contract->failures());
}

std::string left_text(const Result& r) {
  return r.never_left_majority() ? "never" : number(r.left_majority_at);
}

// "objective masked: 2000 steps, 64000 samples, 812 s; both: 7000, 224000, 3012 s"
std::string pretrained_text(const std::optional<PretrainingRecord>& p) {
  if (!p) return "";
  return fmt::format("objective {}: {} steps, {} samples, {:.0f} s; both: {}, {}, {} s",
                     p->objective, p->steps, p->samples, p->seconds, number(p->total_steps),
                     number(p->total_samples), number(p->total_seconds));
}

Table result_table(const Result& r) {
  const auto fraction = [](std::optional<double> value) {
    return value ? fmt::format("{:.2f} %", 100 * *value) : "";
  };
  std::optional<double> chance;
  if (r.predictions) chance = 1.0 / static_cast<double>(r.predictions->classes().size());
  // Of what was tested, which may be less than the whole split.
  const std::optional<double> majority =
      r.predictions ? std::optional(r.predictions->majority()) : r.data.majority;
  Table table =
      facts("Result", {{"status", to_string(r.status)},
                       {"reason", r.reason},
                       {"pretrained", pretrained_text(r.pretrained)},
                       {"accuracies are of", r.metric},
                       {"test accuracy [95 % interval]", accuracy_text(r.test)},
                       {"dev accuracy [95 % interval]", accuracy_text(r.dev)},
                       {"most frequent label of test", fraction(majority)},
                       {"most frequent label of each sample", fraction(r.data.sample_majority)},
                       {"chance", fraction(chance)},
                       {"checkpoint of step", number(r.best_step)},
                       {"steps", number(r.steps)},
                       {"dev above its most frequent label from step", left_text(r)},
                       {"parameters", number(r.parameters)},
                       {"training, s", number(r.training.seconds)},
                       {"steps/s", number(r.training.steps_per_second)},
                       {"tokens/s", number(r.training.tokens_per_second)},
                       {"peak memory, MiB", number(r.training.peak_memory_mib)},
                       {"contract, clauses that hold", contract_text(r.contract)}});
  Baseline baseline;
  if (chance) baseline.chance = 100 * *chance;
  if (majority) baseline.majority = 100 * *majority;
  if (r.data.sample_majority) baseline.sample_majority = 100 * *r.data.sample_majority;
  if (!above(r, baseline))
    table.notes.push_back(fmt::format(
        "WARNING: not learned: the interval on test reaches down to {}", baseline.text()));
  if (r.never_left_majority())
    table.notes.push_back(fmt::format(
        "WARNING: never left the majority class: dev's 95 % interval did not stay above "
        "its most frequent label, or those of its samples ({:.2f} %)",
        100 * *r.data.dev_baseline()));
  if (r.data.synthetic) {
    table.notes.push_back("WARNING: synthetic stand-in data");
  } else if (const std::string kind = r.data.kind(); !kind.empty()) {
    table.notes.push_back(fmt::format("data: {}, not the data of published numbers", kind));
  }
  for (const std::string& text : r.data.unlike)
    table.notes.push_back("data unlike the public: " + text);
  return table;
}

Table length_table(const Accuracy& test) {
  Table table{
      .title = "Test accuracy by length",
      .columns = {{"tokens, cut ones as kept", Align::kLeft}, {"examples"}, {"accuracy %"}}};
  for (const LengthAccuracy& bucket : test.by_length) {
    table.rows.push_back({fmt::format("{} to {}", bucket.from, bucket.to),
                          fmt::format("{}", bucket.count),
                          bucket.count == 0 ? "–" : fmt::format("{:.2f}", 100 * bucket.accuracy)});
  }
  return table;
}

std::string confusion_html(const Predictions& predictions) {
  std::set<int32_t> classes(predictions.labels.begin(), predictions.labels.end());
  classes.insert(predictions.predicted.begin(), predictions.predicted.end());
  std::string html = "<h2 id=\"confusion\">Confusion matrix</h2>\n";
  if (classes.size() > kMostClasses) {
    return html +
           fmt::format("<p class=\"dim\">{} classes are too many to show.</p>\n", classes.size());
  }
  std::map<std::pair<int32_t, int32_t>, int64_t> counts;
  std::map<int32_t, int64_t> of_label;
  for (size_t i = 0; i < predictions.labels.size(); ++i) {
    ++counts[{predictions.labels[i], predictions.predicted[i]}];
    ++of_label[predictions.labels[i]];
  }
  html +=
      "<p class=\"dim\">Rows: the label; columns: what was predicted; darker: a larger part of its "
      "row.</p>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"heat\"><thead><tr><td></td>";
  for (const int32_t predicted : classes)
    html += fmt::format("<th scope=\"col\" class=\"n\">{}</th>", predicted);
  html += "<th scope=\"col\" class=\"n\">right %</th></tr></thead><tbody>\n";
  for (const int32_t label : classes) {
    const int64_t all = of_label[label];
    html += fmt::format("<tr><th scope=\"row\">{}</th>", label);
    for (const int32_t predicted : classes) {
      const int64_t count = counts[{label, predicted}];
      const double share = all == 0 ? 0 : static_cast<double>(count) / static_cast<double>(all);
      // Never so dark that the number on it could not be read.
      html += fmt::format("<td style=\"--share: {:.3f}\">{}</td>", 0.45 * share, count);
    }
    html += all == 0 ? "<td style=\"--share: 0\">–</td></tr>\n"
                     : fmt::format("<td style=\"--share: 0\">{:.1f}</td></tr>\n",
                                   100.0 * static_cast<double>(counts[{label, label}]) /
                                       static_cast<double>(all));
  }
  return html + "</tbody></table></div>\n";
}

std::string shortened(const std::string& text) {
  const std::string_view begin = cut_text(text, kMostBytes);
  if (begin.size() == text.size()) return text;
  return fmt::format("{} … ({} more bytes)", begin, text.size() - begin.size());
}

std::string mistakes_html(const Result& r, const SampleReader& samples) {
  const Predictions& p = *r.predictions;
  std::string html = "<h2 id=\"mistakes\">Most confident mistakes</h2>\n";
  if (p.confidence.empty()) {
    return html +
           "<p class=\"dim\">Not known: these predictions were written without their "
           "confidence.</p>\n";
  }
  std::set<std::string> missing;
  for (const int64_t index : confident_mistakes(p, kMistakes)) {
    const auto i = static_cast<size_t>(index);
    html += fmt::format("<h3>Test example {}: label {}, predicted {} with {:.1f} %</h3>\n", index,
                        p.labels[i], p.predicted[i], 100 * p.confidence[i]);
    const Sample sample = samples ? samples(r, index) : Sample{.missing = "no data given"};
    if (!sample.missing.empty()) {
      missing.insert(sample.missing);
      continue;
    }
    std::vector<std::string> pictures;
    for (const std::string& png : sample.png)
      pictures.push_back(png_figure(png, fmt::format("test example {}", index), kPictureWidth));
    html += figure_row(pictures);
    if (!sample.text.empty()) html += "<pre>" + html_lines(shortened(sample.text)) + "</pre>\n";
  }
  for (const std::string& reason : missing)
    html += "<p class=\"dim\">The examples are not shown: " + html_text(reason) + "</p>\n";
  return html;
}

void flatten(const json& value, const std::string& path,
             std::vector<std::pair<std::string, std::string>>& rows) {
  if (!value.is_object() || value.empty()) {
    rows.emplace_back(path, value.is_string() ? value.get<std::string>() : json_line(value));
    return;
  }
  for (const auto& [key, inner] : value.items())
    flatten(inner, path.empty() ? key : path + "." + key, rows);
}

}  // namespace

std::vector<int64_t> confident_mistakes(const Predictions& predictions, size_t count) {
  std::vector<int64_t> wrong;
  if (predictions.confidence.empty()) return wrong;
  for (size_t i = 0; i < predictions.labels.size(); ++i) {
    if (predictions.labels[i] != predictions.predicted[i]) wrong.push_back(static_cast<int64_t>(i));
  }
  std::ranges::stable_sort(wrong, [&](int64_t one, int64_t other) {
    return predictions.confidence[static_cast<size_t>(one)] >
           predictions.confidence[static_cast<size_t>(other)];
  });
  wrong.resize(std::min(wrong.size(), count));
  return wrong;
}

std::string run_page(const Result& r, const std::string& name,
                     const std::map<std::string, std::string>& drawn, const SampleReader& samples) {
  const std::string title = fmt::format("{} on {}, seed {}", r.attention.label, r.task, r.seed);
  std::string body = "<nav><a href=\"../report.html\">All runs</a></nav>\n<h1>" + html_text(title) +
                     "</h1>\n<p class=\"dim\">Protocol " + html_text(r.protocol) + "</p>\n";
  body += to_html(result_table(r));
  std::vector<std::string> figures;
  std::map<std::string, std::string> alts;
  for (const Plot& plot : run_plots(r, name)) alts[plot.name] = title + ", " + alt_text(plot);
  for (const char* what : {"loss", "accuracy"}) {
    if (const auto it = drawn.find(name + "-" + what);
        it != drawn.end() && alts.contains(it->first))
      figures.push_back(svg_figure(it->second, alts.at(it->first)));
  }
  if (!figures.empty()) body += "<h2 id=\"curves\">Learning curves</h2>\n" + figure_row(figures);
  if (r.test && !r.test->by_length.empty()) body += to_html(length_table(*r.test));
  if (r.predictions) body += confusion_html(*r.predictions) + mistakes_html(r, samples);

  std::vector<std::pair<std::string, std::string>> rows;
  flatten(r.attention.options, "attention.options", rows);
  for (const auto& [key, value] : r.config.items()) {
    if (key != "attention" && key != "overridden" && key != "by_attention")
      flatten(value, key, rows);
  }
  Table configuration = facts("Configuration", rows);
  for (const std::string& text : r.overridden())
    configuration.notes.push_back("overridden: " + text);
  body += to_html(configuration);

  rows = {{"data", r.data.source},
          {"kind of data", r.data.kind_or_real()},
          {"data fingerprint", r.data.fingerprint},
          {"machine", machine_setting_text(r)}};
  flatten(r.data.options, "data", rows);
  flatten(r.software, "software", rows);
  rows.emplace_back("record", r.path);
  body += to_html(facts("Provenance", rows));
  return html_page(title, body);
}

}  // namespace lra
