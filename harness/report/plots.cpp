#include "harness/report/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/temporary_folder.h"

namespace lra {
namespace {

// Whether a picture has its end, or is not there: gnuplot does not tell that it could not write.
bool is_whole(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return true;
  const std::string text = read_file(file);
  const std::string_view end = file.extension() == ".svg" ? "</svg>" : "%%EOF";
  return text.find(end, text.size() - std::min<size_t>(text.size(), 64)) != std::string::npos;
}

std::map<std::string, std::string> read_plots(const std::filesystem::path& folder) {
  std::map<std::string, std::string> drawn;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".svg" && is_whole(entry.path()))
      drawn[entry.path().stem().string()] = read_file(entry.path());
  }
  return drawn;
}

}  // namespace

std::vector<std::string> draw_plots(const std::filesystem::path& folder,
                                    const std::vector<std::string>& scripts) {
  std::vector<std::string> failures;
  for (const std::string& script : scripts) {
    const host::ChildStatus ended =
        host::run_child({script}, {.capture = true, .program = "gnuplot", .folder = folder});
    if (ended.signal == 0 && ended.exit == host::kNotFound) {
      return {
          fmt::format("no plots: gnuplot is not installed; with it, `gnuplot *.gp` in {} draws "
                      "them",
                      folder.string())};
    }
    const auto picture = [&](const char* extension) {
      return (folder / script).replace_extension(extension);
    };
    const bool ran = ended.signal == 0 && ended.exit == 0;
    if (ran && is_whole(picture(".svg")) && is_whole(picture(".pdf"))) {
      // It leaves a key out with a warning alone; its other warnings are of axes that it widens.
      if (ended.err.find("difficulty fitting") != std::string::npos)
        failures.push_back(fmt::format("gnuplot {}: {}; its key may be missing", script,
                                       host::last_line(ended.err)));
      continue;
    }
    failures.push_back(
        fmt::format("gnuplot {}: {}", script,
                    ran ? "its picture is cut short; is the disk full?" : ended.text()));
    // A half-written file is no picture.
    for (const char* extension : {".svg", ".pdf"}) remove_tree(picture(extension));
  }
  return failures;
}

std::map<std::string, std::string> drawn_plots(const std::filesystem::path& folder,
                                               const std::string& script) {
  if (script.empty()) return {};
  const host::TemporaryFolder work(folder, ".plots");
  write_file(work.path() / "plots.gp", script);
  draw_plots(work.path(), {"plots.gp"});
  return read_plots(work.path());
}

}  // namespace lra
