// Checks in a process of their own: the request, and the records that come back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/selfcheck/check.h"

namespace lra::selfcheck {

/// Runs these checks of one subject, by their names, in a child, and gives a record for each, in
/// their order: of the child, or of how it ended. Where it ends in the middle of one, another child
/// goes on with those after it. `left()` are the seconds that are left; where there are none, the
/// rest has status timeout. Throws Interrupted after Ctrl-C.
std::vector<Selfcheck> run_in_children(std::vector<std::string> checks, const CheckSubject& subject,
                                       const std::function<double()>& left);

/// What the process does with the word that it was given: a line on standard output for each check.
void run_selfcheck_child(const std::string& word);

}  // namespace lra::selfcheck
