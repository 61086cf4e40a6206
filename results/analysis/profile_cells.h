// Which profile cells are the same, and which may stand in one table.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "results/published/published.h"
#include "results/records/profile.h"
#include "results/records/setup_groups.h"
#include "results/statistics/bootstrap.h"

namespace lra {

/// What a cell is apart from what came out: equal for two measurements of the same on the same kind
/// of machine.
std::string identity(const Profile& profile);

/// "module, inference, batch 1, 12 heads of 64, float32, cpu, 2 threads, on Xeon, 2 cores": what
/// cells of one table have in common.
std::string setting_text(const Profile& profile);

/// Whether it has a time and a memory.
bool measured(const Profile* profile);

/// The samples of a cell, one list a pass; those of quiet passes alone where at least `fewest` are
/// quiet. A record without passes is one pass. Empty where there are no samples.
std::vector<std::vector<double>> passes_of(const ProfileTime& time, int64_t fewest);

/// The passes that count, as the record's own method asks for them; empty where it has no samples.
std::vector<std::vector<double>> passes_of(const Profile& profile);

/// Whether there are enough samples for an interval (stats::kFewestSamples).
bool has_interval(const std::vector<std::vector<double>>& passes);
bool has_interval(const Profile& profile);
/// That of the median where it has one: older records give some of fewer samples.
std::optional<stats::Interval> shown_interval(const Profile& profile);

/// What a cell took, by which it is compared: where a policy chose the batch, which then differs
/// from cell to cell, of a sample. Milliseconds of a measured() cell, and MiB; absent where the
/// record has none above 0.
std::optional<double> time_cost(const Profile& profile);
std::optional<double> memory_cost(const Profile& profile);

/// The time of one measured() cell over that of another, as time_cost() counts it, with its 95 %
/// interval; absent where one has no samples, or none above 0.
std::optional<stats::Estimate> time_ratio(const Profile& above, const Profile& below);

/// " (B=8)" where a policy chose the batch, else "".
std::string batch_mark(const Profile& profile);

/// "~" where one of the times is not to be trusted, else "".
const char* noise_mark(const Profile& one, const Profile& other);

/// What it says of its processor, the kernels of that and of the values of its protocol.
SetupMarks setup_marks(const Profile& profile);

/// Cells that may be compared: all but attention and length in common (and batch, where a policy
/// chose it), the processor, the set of its kernels and the values of the protocol too.
struct ProfileGroup {
  const Profile* front = nullptr;
  // "module, inference, batch 1, 12 heads of 64, float32, cpu, 2 threads, on Xeon, 2 cores"; where
  // other kernels measured the same, "cpu, kernels avx2", and where protocols of one name have
  // other values, "protocol mine (values 1a2b3c4d), listops".
  std::string setting;
  std::vector<std::string> notes;  // on what tells it apart from others of the same setting
  std::set<int64_t> lengths;
  std::map<std::string, std::map<int64_t, const Profile*>> rows;  // by row name, then length
  bool repeated = false;  // a cell was measured more than once; the last line stands

  /// Row names of the attention that a paper's cost table compares the others with, plain name
  /// first.
  std::vector<std::string> baselines(std::span<const Published> references) const;
  /// " per sample" where a policy chose the batches, else "".
  const char* per_sample() const;
  /// The cell, or null.
  const Profile* at(const std::string& row, int64_t length) const;
};

/// In the order of their settings. Cells of other packages are rows of their own, marked with it.
std::vector<ProfileGroup> group_profiles(std::span<const Profile> profiles);

/// What a machine of this roofline reaches at most with an operation of so many floating-point
/// operations that must move so many bytes (Williams et al. 2009), GFLOP/s.
double attainable_gflops(const Roofline& roofline, double flops, double least_bytes);

/// "N^1.02 [0.98, 1.06]"; "–" where there is no growth to tell.
std::string growth_text(const std::vector<double>& lengths, const std::vector<double>& values);

}  // namespace lra
