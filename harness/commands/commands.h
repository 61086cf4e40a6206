// The subcommands of `lra`: each adds itself, and its callback does the work or throws.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "attention_variants/registry.h"
#include "harness/training/contract_check.h"
#include "results/print/table.h"

namespace lra {

void add_list_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_protocol_command(CLI::App& app);
void add_train_command(CLI::App& app);
void add_evaluate_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_profile_command(CLI::App& app);
void add_fidelity_command(CLI::App& app);
void add_suite_command(CLI::App& app);
void add_tune_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_attend_command(CLI::App& app);
void add_check_command(CLI::App& app);
void add_selfcheck_command(CLI::App& app);
void add_help_command(CLI::App& app);
void add_completion_command(CLI::App& app);

/// Checks that a word is a seed: digits that name a uint64_t, where reading alone would wrap "-1"
/// around and cut a greater one off.
CLI::Validator seed_text();

/// Turns the words of a length into its number, "1Ki" into "1024"; refuses others, and says why.
CLI::Validator length_text();

/// Checks that a number lies between these, which CLI::Range says of NaN too.
CLI::Validator number_in(double least, double most);

/// Refuses a list without a name in it, which would be read as one that is not given.
CLI::Validator some_name();

/// "0,4-7" -> 0, 4, 5, 6, 7; nothing where that is not what it is, or are more than `most`.
std::optional<std::vector<uint64_t>> parse_numbers(const std::string& text, uint64_t most);

/// The bytes of "8GiB", "8G", "8GB" (10^9 each) or a plain number; throws UsageError that names the
/// option.
int64_t parse_bytes(const std::string& option, const std::string& text);

/// Adds --attention and --option.
void add_attention_options(CLI::App& command, std::string& attention,
                           std::vector<std::string>& options);
/// The attention that --attention and the key=value words of --option name together; throws
/// UsageError on a malformed one, and where both name an option with different values.
AttentionSpec attention_given(const std::string& text, const std::vector<std::string>& options);

/// Add --device, --threads with 0 for all processors, --check and --no-check.
void add_device_option(CLI::App& command, std::string& device);
void add_threads_option(CLI::App& command, int64_t& threads);
void add_contract_options(CLI::App& command, ContractCheck& check);

/// The settings that an option which there is not may mean, as words for --set: of "--steps" and
/// "10" training.steps=10; none where there is no such setting.
std::vector<std::string> settings_meant(const std::string& option, const std::string& value);

/// Throws UsageError where --out names no .jsonl file, or none at all.
void check_jsonl_out(const std::string& out);

/// stop_at_signals() and outlive_readers(), of a command whose work is in files: it goes on where
/// nobody reads its output.
void begin_work_in_files();

/// A table on standard output, as wide as the terminal or as `--wide` says.
void print_table(const Table& table);

/// JSON on standard output; what a terminal would obey in it stands escaped.
void print_json(const json& value);

}  // namespace lra
