// Processes on CPUs, by MPI.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>

#include "harness/processes/processes.h"

namespace lra {
namespace {

MPI_Datatype type_of(const torch::Tensor& values) {
  switch (values.scalar_type()) {
    case torch::kFloat32:
      return MPI_FLOAT;
    case torch::kFloat64:
      return MPI_DOUBLE;
    case torch::kInt64:
      return MPI_INT64_T;
    default:
      TORCH_CHECK(false, "MPI sums float32, float64 and int64, not ", values.scalar_type());
  }
}

// MPI counts in int.
template <class Call>
void in_pieces(const torch::Tensor& values, int64_t count, int64_t size, const Call& call) {
  constexpr int64_t kMost = int64_t{1} << 30;
  TORCH_CHECK(values.is_cpu() && values.is_contiguous(), "MPI takes contiguous tensors on CPUs");
  auto* bytes = static_cast<char*>(values.data_ptr());
  for (int64_t begin = 0; begin < count; begin += kMost)
    call(bytes + begin * size, static_cast<int>(std::min(kMost, count - begin)));
}

// Errors of MPI itself end all processes: that is its default.
class MpiProcesses final : public Processes {
 public:
  explicit MpiProcesses(const host::Launch& launch) : Processes(launch, "mpi") {}
  ~MpiProcesses() override { MPI_Finalize(); }

  void sum(const torch::Tensor& values) override {
    const MPI_Datatype type = type_of(values);
    in_pieces(values, values.numel(), values.element_size(), [&](void* data, int count) {
      MPI_Allreduce(MPI_IN_PLACE, data, count, type, MPI_SUM, MPI_COMM_WORLD);
    });
  }

  void broadcast(const torch::Tensor& values, int64_t from) override {
    in_pieces(values, static_cast<int64_t>(values.nbytes()), 1, [&](void* data, int count) {
      MPI_Bcast(data, count, MPI_BYTE, static_cast<int>(from), MPI_COMM_WORLD);
    });
  }

  [[noreturn]] void abort(int status) override {
    MPI_Abort(MPI_COMM_WORLD, status);
    std::abort();
  }
};

}  // namespace

std::unique_ptr<Processes> start_mpi(const host::Launch& launch) {
  int provided = 0, rank = 0, size = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != launch.size || rank != launch.rank) {
    MPI_Finalize();
    throw Error(
        fmt::format("{} started {} processes, but MPI knows of {}: use the mpirun of {}, which "
                    "this lra was built with; with srun add --mpi=pmix",
                    launch.by, launch.size, size, mpi_version()));
  }
  return std::make_unique<MpiProcesses>(launch);
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text, static_cast<size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

}  // namespace lra
