// Tables for LaTeX: booktabs, as wide as a column at most.
#pragma once

#include <string>

#include "results/print/table.h"

namespace lra {

/// A table environment under its title as caption, with \label{tab:<label>}, the best of the
/// columns in bold, and what follows ± small. It is scaled down where it would be wider than a
/// column, or, if it is `wide`, than the page. Notes are comments before it. It needs
/// \usepackage{booktabs,graphicx}. A character that pdfLaTeX's fonts lack prints as its code
/// point there, and as itself under XeLaTeX and LuaLaTeX.
std::string to_latex(const Table& table, const std::string& label, bool wide = false);

}  // namespace lra
