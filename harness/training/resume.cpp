#include "harness/training/resume.h"

#include "attention_variants/base/files.h"
#include "attention_variants/python_host.h"
#include "harness/training/run_folder.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

std::string text_option(const json& options, const char* key) {
  const auto it = options.find(key);
  return it != options.end() && it->is_string() ? it->get<std::string>() : "";
}

// What a module of Python's is called says nothing of where it lies.
bool names_path(const json& options) {
  const fs::path file = text_option(options, "file");
  return !file.empty() && (!options.contains("class") || file.extension() == ".py");
}

// The path of a script may not be the value of an option; that of a class stands in JSON alone.
bool may_name(const json& options, const fs::path& kept) {
  return options.contains("class") || kept.string().find_first_of(",[]") == std::string::npos;
}

// Where a class's source has the modules that it imports from beside it: there, or where a run's
// folder keeps them.
fs::path imports_folder(const fs::path& source) {
  const fs::path kept = source.parent_path() / kAttentionImports;
  std::error_code none;
  return source.filename() == kAttentionSource && fs::is_directory(kept, none)
             ? kept
             : source.parent_path();
}

// The first of the modules beside a source that is not what its options say; empty: all are.
fs::path other_import(const json& options, const fs::path& source) {
  const json imports = options.value(kImportsHash, json::object());
  for (const auto& [name, hash] : imports.items()) {
    const fs::path file = imports_folder(source) / name;
    std::error_code none;
    if (!fs::is_regular_file(file, none) || sha256_file(file) != hash) return file;
  }
  return {};
}

std::string changed_file_text(const fs::path& file, const std::string& which) {
  std::error_code none;
  return file.string() + which + (fs::is_regular_file(file, none) ? " has changed" : " is gone");
}

[[noreturn]] void throw_changed(const std::string& file) {
  throw Error(file + " has changed since it was loaded; start again");
}

void keep_imports(const fs::path& folder, const json& options) {
  const json imports = options.value(kImportsHash, json::object());
  const fs::path source = text_option(options, "file");
  if (source.extension() != ".py") return;  // Python finds it, and them, by name
  for (const auto& [name, hash] : imports.items()) {
    const fs::path kept = folder / kAttentionImports / name, file = imports_folder(source) / name;
    std::error_code none;
    if (fs::is_regular_file(kept, none) && sha256_file(kept) == hash) continue;
    const std::string text = read_file(file);
    if (sha256(text) != hash) throw_changed(file.string());
    fs::create_directories(kept.parent_path());
    write_file(kept, text, Links::replace);
  }
}

}  // namespace

fs::path begun_folder(const fs::path& run) {
  const fs::path first = run / kPretrainingFolder;
  return has_begun(run) || !fs::exists(first / kConfigFile) ? run : first;
}

std::optional<FileState> file_state(const json& attention_options) {
  const std::string hash = text_option(attention_options, "sha256");
  if (hash.empty() || !names_path(attention_options)) return std::nullopt;
  const fs::path file = text_option(attention_options, "file");
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return FileState::gone;
  const bool same = sha256_file(file) == hash && other_import(attention_options, file).empty();
  return same ? FileState::same : FileState::changed;
}

const char* kept_name(const json& attention_options) {
  return attention_options.contains("class") ? kAttentionSource : kAttentionFile;
}

void check_kept_place(const fs::path& run, const json& attention_options, bool anew) {
  const std::string hash = text_option(attention_options, "sha256");
  const fs::path kept = run / kept_name(attention_options);
  std::error_code none;
  if (hash.empty() || !fs::is_regular_file(kept, none)) return;
  if (anew && fs::equivalent(text_option(attention_options, "file"), kept, none)) {
    throw Error(kept.string() +
                ", of which the attention is made, would be removed with the run that its folder "
                "holds; copy it elsewhere, and name the copy");
  }
  if (!anew && !fs::exists(run / kConfigFile) && sha256_file(kept) != hash) {
    throw Error(kept.string() +
                " is of no run, and would be replaced by what the attention is made of; move it, "
                "or choose another --run folder");
  }
}

void keep_attention(const fs::path& folder, const json& attention_options) {
  keep_imports(folder, attention_options);
  const std::string hash = text_option(attention_options, "sha256");
  const fs::path kept = folder / kept_name(attention_options);
  if (hash.empty() || (fs::exists(kept) && sha256_file(kept) == hash)) return;
  const bool is_class = attention_options.contains("class") && python_host() != nullptr;
  const std::string file = text_option(attention_options, "file"),
                    text = is_class ? python_host()->source(attention_options) : read_file(file);
  if (sha256(text) != hash) throw_changed(file);
  write_file(kept, text, Links::replace);
}

fs::path kept_file(const json& attention_options, const fs::path& folder) {
  const std::string hash = text_option(attention_options, "sha256");
  if (hash.empty() || !names_path(attention_options)) return {};
  const fs::path kept = folder / kept_name(attention_options);
  std::error_code none;
  if (!may_name(attention_options, kept) || !fs::is_regular_file(kept, none)) return {};
  const bool same = sha256_file(kept) == hash && other_import(attention_options, kept).empty();
  return same ? kept : fs::path();
}

json with_kept_file(json attention_options, const fs::path& run) {
  // What runs before this held of a Python file's imports lies beside it alone.
  if (attention_options.contains("class") &&
      (!names_path(attention_options) || file_state(attention_options) == FileState::same))
    return attention_options;
  const fs::path kept = run / kept_name(attention_options);
  if (attention_options.contains("sha256") && may_name(attention_options, kept) && fs::exists(kept))
    attention_options["file"] = kept.string();
  return attention_options;
}

fs::path kept_for(const fs::path& run, const AttentionSpec& attention) {
  if (runs_by_name(attention.name)) return {};
  const fs::path folder = begun_folder(run);
  // One that never reached a checkpoint is begun anew, with the file as it is.
  if (!has_begun(folder) || !fs::exists(folder / kConfigFile)) return {};
  const json saved = read_json(folder / kConfigFile);
  if (!saved.is_object()) return {};
  const json of = saved.value("attention", json());
  if (!of.is_object() || text_option(of, "name") != attention.name) return {};
  const AttentionSpec had{.name = attention.name, .options = of.value("given", json::object())};
  const json options = of.value("options", json::object());
  if (had.text() != attention.text()) return {};
  const auto state = file_state(options);
  return !state || *state == FileState::same ? fs::path() : kept_file(options, folder);
}

std::string changed_text(const json& attention_options) {
  const fs::path file = text_option(attention_options, "file");
  std::error_code none;
  if (fs::is_regular_file(file, none) &&
      sha256_file(file) == text_option(attention_options, "sha256")) {
    if (const fs::path other = other_import(attention_options, file); !other.empty())
      return changed_file_text(other, ", which " + file.string() + " imports,");
  }
  return changed_file_text(file, "");
}

Config run_config(const Protocol& protocol, const std::string& task, const AttentionSpec& attention,
                  const std::vector<std::string>& sets, uint64_t seed, const std::string& dtype,
                  const fs::path& kept) {
  Config config = make_config(protocol, task, attention, sets, seed, dtype, kept.string());
  // The contract is tried on it, too.
  if (!kept.empty()) config.attention.options["file"] = kept.string();
  return config;
}

}  // namespace lra
