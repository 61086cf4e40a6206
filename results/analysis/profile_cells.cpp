#include "results/analysis/profile_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "attention_variants/base/text.h"
#include "results/analysis/attention_names.h"
#include "results/records/json_line.h"

namespace lra {
namespace {

// All but attention and length; and the batch, where a policy chose it.
std::string setting_of(const Profile& p) {
  json key = {p.scope,
              p.mode,
              p.batch_policy.empty() ? json(p.batch) : json(p.batch_policy),
              p.heads,
              p.head_dim,
              p.dtype,
              p.device,
              p.threads.value_or(0),
              machine_text(p.machine),
              p.protocol,
              p.task,
              p.sets};
  return json_line(key);
}

// How many samples what it took is compared by.
double shared_by(const Profile& p) {
  return p.batch_policy.empty() ? 1 : static_cast<double>(p.batch);
}

std::string setting_text(const Profile& p, const SetupGroup& same) {
  std::string text =
      fmt::format("{}, {}, batch {}, {} heads of {}, {}, {}", p.scope, p.mode,
                  p.batch_policy.empty() ? fmt::format("{}", p.batch) : p.batch_policy, p.heads,
                  p.head_dim, p.dtype, p.device);
  if (!same.cpu.empty()) text += ", " + same.cpu;
  if (const int64_t threads = p.threads.value_or(0); threads > 0)
    text += ", " + count_text(threads, "thread");
  if (!p.protocol.empty())
    text += fmt::format(", protocol {}{}, {}", p.protocol,
                        same.values.empty() ? "" : fmt::format(" ({})", same.values), p.task);
  for (const std::string& set : p.sets) text += ", " + set;
  return text + ", on " + machine_text(p.machine);
}

ProfileGroup group_of(const std::vector<const Profile*>& cells) {
  ProfileGroup group{.front = cells.front()};
  // A label that was measured with several sets of options is several rows.
  std::map<std::pair<std::string, std::string>, std::vector<const json*>> options;  // and package
  for (const Profile* p : cells) {
    auto& known = options[{p->attention.label, p->package}];
    const auto same = [p](const json* other) { return *other == p->attention.options; };
    if (std::ranges::none_of(known, same)) known.push_back(&p->attention.options);
  }
  for (const Profile* p : cells) {
    const auto& known = options.at({p->attention.label, p->package});
    std::string name = p->attention.label;
    if (!p->package.empty()) name += " (" + p->package + ")";
    name = name_with(name, differing_options(p->attention.options, known));
    const Profile*& place = group.rows[name][p->length];
    group.repeated |= place != nullptr;
    place = p;  // the later line stands: a resumed profile appends
    group.lengths.insert(p->length);
  }
  return group;
}

}  // namespace

std::string identity(const Profile& p) {
  return json_line({p.attention.label, p.package, p.length, p.batch, setting_of(p)});
}

std::string setting_text(const Profile& p) { return setting_text(p, SetupGroup{}); }

bool measured(const Profile* p) {
  return p != nullptr && p->status == Status::ok && p->time && p->memory;
}

std::vector<std::vector<double>> passes_of(const ProfileTime& time, int64_t fewest) {
  if (time.passes.empty()) {
    if (time.samples.empty()) return {};
    return {time.samples};
  }
  std::vector<std::vector<double>> all, quiet;
  auto from = time.samples.begin();
  for (const ProfilePass& pass : time.passes) {
    const auto count = std::min<std::ptrdiff_t>(pass.samples, time.samples.end() - from);
    if (count <= 0) continue;
    all.emplace_back(from, from + count);
    if (pass.noisy.empty()) quiet.push_back(all.back());
    from += count;
  }
  return static_cast<int64_t>(quiet.size()) >= std::max<int64_t>(fewest, 1) ? quiet : all;
}

std::vector<std::vector<double>> passes_of(const Profile& profile) {
  if (!profile.time) return {};
  const auto it = profile.method.find("passes");
  const bool stated = it != profile.method.end() && it->is_number_integer();
  return passes_of(*profile.time, stated ? it->get<int64_t>() : 1);
}

bool has_interval(const std::vector<std::vector<double>>& passes) {
  int64_t samples = 0;
  for (const std::vector<double>& pass : passes) samples += static_cast<int64_t>(pass.size());
  return samples >= stats::kFewestSamples;
}

bool has_interval(const Profile& p) { return has_interval(passes_of(p)); }

std::optional<stats::Interval> shown_interval(const Profile& p) {
  return p.time && has_interval(p) ? p.time->ci95 : std::nullopt;
}

std::optional<double> time_cost(const Profile& p) {
  if (!(p.time->median > 0)) return std::nullopt;
  return p.time->median / shared_by(p);
}

std::optional<double> memory_cost(const Profile& p) {
  if (!(p.memory->peak.value_or(0) > 0)) return std::nullopt;
  return *p.memory->peak / shared_by(p);
}

std::optional<stats::Estimate> time_ratio(const Profile& above, const Profile& below) {
  const auto one = passes_of(above), other = passes_of(below);
  if (one.empty() || other.empty() || !time_cost(above) || !time_cost(below)) return std::nullopt;
  stats::Estimate ratio = stats::ratio_over_passes(one, other);
  const double scale = shared_by(below) / shared_by(above);
  ratio.value *= scale;
  ratio.ci95 = {ratio.ci95.low * scale, ratio.ci95.high * scale};
  return ratio;
}

std::string batch_mark(const Profile& p) {
  return p.batch_policy.empty() ? "" : fmt::format(" (B={})", p.batch);
}

const char* noise_mark(const Profile& one, const Profile& other) {
  return one.noisy.empty() && other.noisy.empty() ? "" : "~";
}

const char* ProfileGroup::per_sample() const {
  return front->batch_policy.empty() ? "" : " per sample";
}

std::vector<std::string> ProfileGroup::baselines(std::span<const Published> references) const {
  std::vector<std::string> names;
  for (const auto& [name, cells] : rows) {
    const Profile& first = *cells.begin()->second;
    const auto names_it = [&](const Published& reference) {
      return reference.cost && reference.cost->baseline.matches(first.attention);
    };
    if (first.package.empty() && std::ranges::any_of(references, names_it)) names.push_back(name);
  }
  return names;
}

const Profile* ProfileGroup::at(const std::string& row, int64_t length) const {
  const auto cells = rows.find(row);
  if (cells == rows.end()) return nullptr;
  const auto cell = cells->second.find(length);
  return cell == cells->second.end() ? nullptr : cell->second;
}

SetupMarks setup_marks(const Profile& p) {
  return {.kernels = kernel_set(p.software, p.device),
          .capability = cpu_capability(p.software, p.device),
          .processor = cpu_model(p.machine, p.device),
          .any_kernels = !p.package.empty(),
          .values = p.protocol_sha256,
          .own = p.own_settings_sha256,
          .settings = p.settings_sha256,
          .cell = json_line({p.attention.label, p.attention.options, p.package, p.length, p.batch}),
          .file = p.path};
}

std::vector<ProfileGroup> group_profiles(std::span<const Profile> profiles) {
  std::map<std::string, std::vector<const Profile*>> settings;
  for (const Profile& p : profiles) settings[setting_of(p)].push_back(&p);
  std::vector<ProfileGroup> groups;
  for (const auto& [setting, cells] : settings) {
    std::vector<SetupMarks> marks;
    for (const Profile* p : cells) marks.push_back(setup_marks(*p));
    for (SetupGroup& same : setup_groups(marks)) {
      std::vector<const Profile*> members;
      for (const size_t member : same.members) members.push_back(cells[member]);
      ProfileGroup group = group_of(members);
      group.setting = setting_text(*group.front, same);
      group.notes = std::move(same.notes);
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

double attainable_gflops(const Roofline& roofline, double flops, double least_bytes) {
  if (!(least_bytes > 0)) return roofline.gflops;
  return std::min(roofline.gflops, flops / least_bytes * roofline.gigabytes_per_second);
}

std::string growth_text(const std::vector<double>& lengths, const std::vector<double>& values) {
  const auto fit = stats::growth(lengths, values);
  if (!fit) return "–";
  if (!fit->ci95) return fmt::format("N^{:.2f}", fit->exponent);
  return fmt::format("N^{:.2f} [{:.2f}, {:.2f}]", fit->exponent, fit->ci95->low, fit->ci95->high);
}

}  // namespace lra
