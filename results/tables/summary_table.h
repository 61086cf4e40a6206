// What a report says in a few lines.
#pragma once

#include "results/print/table.h"
#include "results/store/store.h"

namespace lra {

/// Two columns without headers: what the records are, why regimes stand apart where there are
/// several, and of each recipe which attention has the highest accuracy, trains fastest and takes
/// least memory, what was not learned, what ended otherwise than ok, and which data are stand-ins.
Table summary_table(const Records& records);

}  // namespace lra
