// A cell's record over its passes: each pass is one process's samples.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "results/records/profile.h"

namespace lra::profile {

/// Whether a cell is as good as it will get with `passes` quiet passes wanted.
bool is_done(const Profile& record, int64_t passes);

/// The passes that a record has.
int64_t pass_count(const Profile& record);

/// How many more it is to get, if all of them are quiet.
int64_t passes_to_come(const Profile& record, int64_t passes);

/// Adds the samples of a later pass to a record. A pass that failed leaves them as they are and
/// ends the cell: it ran before, so what ended it now is the machine's doing.
void merge_pass(Profile pass, Profile& record);

/// Derives from all samples so far what follows from them: median, interval, and why the record is
/// noisy. `method`: how it was measured; what merge_pass() noted of it stays.
void settle(Profile& record, json method, const std::optional<Roofline>& roofline, int64_t passes);

/// "2 of 8 cells were not measured: crash of a at N = 512; ...": those of this program's own
/// attentions that ended in crash or timeout; "" where none did. What does not fit or is refused is
/// a result, and what becomes of other packages is theirs.
std::string unmeasured_text(std::span<const Profile> records);

}  // namespace lra::profile
