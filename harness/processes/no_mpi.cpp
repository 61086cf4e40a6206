// In place of mpi.cpp where CMake finds no MPI.
#include "harness/processes/processes.h"

namespace lra {

std::unique_ptr<Processes> start_mpi(const host::Launch& launch) {
  throw without_engine(launch, "MPI");
}

std::string mpi_version() { return "none"; }

}  // namespace lra
