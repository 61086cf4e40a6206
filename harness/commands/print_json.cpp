// The JSON that commands print.
#include <fmt/format.h>

#include "harness/commands/commands.h"
#include "results/records/json_line.h"

namespace lra {

void print_json(const json& value) { fmt::print("{}\n", json_text(value)); }

}  // namespace lra
