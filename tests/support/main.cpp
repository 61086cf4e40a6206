#include "tests/support/run_tests.h"

int main(int argc, char** argv) { return lra::run_tests(argc, argv); }
