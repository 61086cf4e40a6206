// One attention, task or setting in words: what each option means and takes.
#pragma once

#include <string>

#include "results/print/table.h"

namespace lra {

/// What an attention is, a table of its options, and an example of how to give them; throws
/// UsageError on a name that there is not.
void print_attention(const std::string& name);

/// What a task is, how its data are made, and a table of its settings under the default protocol.
void print_task(const std::string& name);

/// A setting of a protocol, "training.steps", or a group of them, "training": a table of what it
/// means, takes and is in each task, and an example of how to change it. Throws UsageError on a key
/// that there is not.
void print_setting(const std::string& protocol, const std::string& key);

/// "attention, option" or "setting" -> its meaning; "" where there is none, as of an attention of
/// the user's own.
std::string option_meaning(const std::string& attention, const std::string& option);
std::string setting_meaning(const std::string& key);

}  // namespace lra
