#include "tests/support/run_tests.h"

int main(int argc, char** argv) { lra::run_tests(argc, argv); }
