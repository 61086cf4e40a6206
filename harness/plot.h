// Plots, drawn by gnuplot where it is installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lra {

/// Runs gnuplot on each of these scripts of `folder`, with that as working folder. Returns one line
/// a script that failed; where gnuplot is not installed, one line that says so and what to do.
std::vector<std::string> draw_plots(const std::filesystem::path& folder,
                                    const std::vector<std::string>& scripts);

}  // namespace lra
