// A run that goes on: its folder, and the file that its attention was made from, which may have
// changed since or be gone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lra/config/protocol.h"

namespace lra {

/// The folder of the run that goes on: of two, that of the first as long as the second has not
/// begun.
std::filesystem::path begun_folder(const std::filesystem::path& run);

/// How the file that an attention was made from stands to what its options say of it.
enum class FileState { same, changed, gone };

/// By effective options; of a class of Python's with what it imports from beside it. Nothing where
/// these name no file, or a module that Python finds by name.
std::optional<FileState> file_state(const json& attention_options);

/// The name of an attention's file in a run's folder.
const char* kept_name(const json& attention_options);

/// Throws where what a run's folder is to keep of an attention's file would take the place of a
/// file that is of no run, or where the run that is removed before (`anew`) keeps the very file
/// that the attention is made of.
void check_kept_place(const std::filesystem::path& run, const json& attention_options, bool anew);

/// Has a folder keep the file that an attention is made from, under its kept_name(), and the
/// modules that a class imports from beside it, by the effective options; nothing where these name
/// no file. Throws where one is no more what they say.
void keep_attention(const std::filesystem::path& folder, const json& attention_options);

/// The file that a folder keeps, where it is the one that these effective options are of, with all
/// that it imports, and can be read in its place; else empty.
std::filesystem::path kept_file(const json& attention_options, const std::filesystem::path& folder);

/// The options of a run's attention with the file that its folder keeps in place of the one that it
/// was made of, which may have moved or changed since.
json with_kept_file(json attention_options, const std::filesystem::path& run);

/// Where `run` goes on with an attention that has changed since it began, or is gone: the file that
/// its folder keeps. Else empty.
std::filesystem::path kept_for(const std::filesystem::path& run, const AttentionSpec& attention);

/// "my.py has changed", "my.py is gone", "helper.py, which my.py imports, has changed": by
/// effective options that file_state() finds not to be of what is there.
std::string changed_text(const json& attention_options);

/// What make_config() makes, for a run of it: with a `kept` file in place of the attention's own,
/// which all that the run does with the attention reads, and none of its records names.
Config run_config(const Protocol& protocol, const std::string& task, const AttentionSpec& attention,
                  const std::vector<std::string>& sets, uint64_t seed, const std::string& dtype,
                  const std::filesystem::path& kept);

}  // namespace lra
