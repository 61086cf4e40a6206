// How many times as fast an attention is as another, in words.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/records/profile.h"

namespace lra {

/// "N=1024: linear is 1.59 ± 0.04 times as fast as nystrom": the fastest against each other one, of
/// each length; of more than four rows of the longest alone. The longer side of the ratio's
/// bootstrap 95 % interval stands behind ±; where that holds 1, neither is called faster.
std::vector<std::string> speed_texts(std::span<const Profile> profiles);

}  // namespace lra
