#include "harness/report/plots.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/temporary_folder.h"

namespace lra {
namespace {

// gnuplot's exit status. What it prints is dropped: scripts of ours have nothing to say but errors,
// which the status tells.
int run_gnuplot(const std::filesystem::path& folder, const std::string& script) {
  const std::string path = folder.string();
  const pid_t child = fork();
  if (child < 0) throw Error(std::string("cannot start a process: ") + std::strerror(errno));
  if (child == 0) {
    // Only calls that are safe between fork and exec.
    const int null = open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
    if (chdir(path.c_str()) == 0) execlp("gnuplot", "gnuplot", script.c_str(), nullptr);
    _exit(host::kNotFound);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR)
      throw Error(std::string("cannot wait for a process: ") + std::strerror(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::vector<std::string> draw_plots(const std::filesystem::path& folder,
                                    const std::vector<std::string>& scripts) {
  std::vector<std::string> failures;
  for (const std::string& script : scripts) {
    const int status = run_gnuplot(folder, script);
    if (status == host::kNotFound) {
      return {
          fmt::format("no plots: gnuplot is not installed; with it, `gnuplot *.gp` in {} draws "
                      "them",
                      folder.string())};
    }
    if (status == 0) continue;
    failures.push_back(fmt::format("gnuplot {}: exit status {}", script, status));
    // A half-written file is no picture.
    for (const char* extension : {".svg", ".pdf"})
      remove_tree((folder / script).replace_extension(extension));
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

std::map<std::string, std::string> read_plots(const std::filesystem::path& folder) {
  std::map<std::string, std::string> drawn;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".svg")
      drawn[entry.path().stem().string()] = read_file(entry.path());
  }
  return drawn;
}

}  // namespace lra
