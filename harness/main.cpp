#include "harness/commands/program.h"
#include "harness/host/runtime.h"

int main(int argc, char** argv) {
  lra::host::open_standard_files();
  lra::host::end_process(lra::run_program(argc, argv));
}
