// The subcommands of `lra`: each adds itself, and its callback does the work or throws.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "attention_variants/registry.h"

namespace lra {

void add_list_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_protocol_command(CLI::App& app);
void add_train_command(CLI::App& app);
void add_evaluate_command(CLI::App& app);
void add_profile_command(CLI::App& app);
void add_fidelity_command(CLI::App& app);
void add_suite_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_attend_command(CLI::App& app);
void add_check_command(CLI::App& app);
void add_help_command(CLI::App& app);
void add_completion_command(CLI::App& app);

/// Checks that a word is a seed: digits that name a uint64_t, where reading alone would wrap "-1"
/// around and cut a greater one off.
CLI::Validator seed_text();

/// The bytes of "8GiB", "512MiB" or a plain number; throws UsageError that names the option.
int64_t parse_bytes(const std::string& option, const std::string& text);

/// Adds --attention and --option.
void add_attention_options(CLI::App& command, std::string& attention,
                           std::vector<std::string>& options);
/// The attention that --attention and the key=value words of --option name together; throws
/// UsageError on a malformed one.
AttentionSpec attention_given(const std::string& text, const std::vector<std::string>& options);

/// JSON on standard output; what a terminal would obey in it stands escaped.
void print_json(const json& value);

}  // namespace lra
