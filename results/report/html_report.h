// The report as pages for a browser.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "results/report/run_page.h"
#include "results/store/store.h"

namespace lra {

/// The plots of the runs' own pages, all in one gnuplot script; "" where there are none. It writes
/// <plot's name>.svg into the working folder.
std::string run_plots_script(const Records& records);

/// The file names of make_pages.
std::vector<std::string> page_files(const Records& records);

/// File name -> content: report.html (all that make_report writes as text, with the plots) and
/// runs/<name>.html, a page a run. `drawn` holds the SVG files of make_report's plots and of
/// run_plots_script, by name; what is missing is left out. `samples` may be empty.
std::map<std::string, std::string> make_pages(const Records& records,
                                              const std::map<std::string, std::string>& drawn,
                                              const SampleReader& samples);

}  // namespace lra
