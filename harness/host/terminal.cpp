#include "harness/host/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace lra::host {
namespace {

bool g_wide = false;

}  // namespace

size_t terminal_columns(int descriptor) {
  winsize size{};
  if (isatty(descriptor) == 0 || ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

size_t terminal_rows() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

void set_wide(bool wide) { g_wide = wide; }

size_t table_columns() { return g_wide ? 0 : terminal_columns(STDOUT_FILENO); }

}  // namespace lra::host
