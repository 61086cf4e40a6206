#include "harness/commands/program.h"

int main(int argc, char** argv) { return lra::run_program(argc, argv); }
