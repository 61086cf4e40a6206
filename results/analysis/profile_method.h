// How cells were measured, which tells none of them apart and may still change what came out.
#pragma once

#include <span>
#include <string>

#include "results/records/profile.h"

namespace lra {

/// "huge pages never before, madvise now, torch 2.10.0 before, 2.11.0 now"; of huge pages, pinning,
/// flushed caches and LibTorch what both records say. "" where it is the same.
std::string other_method(const Profile& before, const Profile& now);

/// "huge pages madvise and never, threads not pinned and pinned": in what the cells of a table
/// differ, other packages left out. "" where they were all measured alike.
std::string mixed_methods(std::span<const Profile* const> cells);

/// "num_landmarks 32 before, 64 now": options that both records have, with other values. "" where
/// there are none.
std::string other_options(const Profile& before, const Profile& now);

}  // namespace lra
