#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/comm/mpi_plugin_abi.h"

/// One MPI library's interface as C; no exception leaves it. Compiled once for each mpi.h. The
/// plug-in is not linked to an MPI library: its user has opened the launcher's own before.

namespace dlflow::runtime {
namespace {

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw std::runtime_error(std::string(call) + ": " + std::string(text, size_t(length)));
}

/// Runs `work` and converts an exception into the text that the caller gets.
template <typename Work>
DlflowMpiError guarded(Work work) noexcept {
  static thread_local std::string error;
  try {
    work();
    return nullptr;
  } catch (const std::exception& e) {
    error = e.what();
  }
  return error.c_str();
}

template <typename Own>
Own own_of(DlflowMpiHandle handle) {
  static_assert(sizeof(Own) <= sizeof handle);
  Own own;
  std::memcpy(&own, &handle, sizeof own);
  return own;
}

template <typename Own>
DlflowMpiHandle handle_of(Own own) {
  DlflowMpiHandle handle = 0;
  std::memcpy(&handle, &own, sizeof own);
  return handle;
}

MPI_Comm world(const DlflowMpiRanks* ranks) { return own_of<MPI_Comm>(ranks->world); }
MPI_Comm node(const DlflowMpiRanks* ranks) { return own_of<MPI_Comm>(ranks->node); }

const char* library() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

/// Whether srun has started ranks of Open MPI 5. It aborts a rank when the connection to a dead one
/// closes, which ends the step within 30 ms: before the dead rank's guard has reported, and before
/// this rank's watch ends it. mpirun ends the ranks itself.
bool delays_abort() {
  const std::string_view name = library();
  return name.starts_with("Open MPI") && !name.starts_with("Open MPI v4") &&
         std::getenv("OMPI_COMM_WORLD_RANK") == nullptr;
}

void init(int* argc, char*** argv) {
  if (delays_abort()) ::setenv("OMPI_MCA_mpi_abort_delay", "8", 0);  // seconds
  int granted = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &granted);  // a failure ends the process
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

void finalize() { MPI_Finalize(); }

void abort(int32_t status) {
  if (delays_abort()) ::_exit(status);  // SLURM also treats this as an abort
  MPI_Abort(MPI_COMM_WORLD, status);
}

int32_t rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// Some libraries grant less than MPI_Init_thread requests, and report it only here.
void require_threads() {
  int granted = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&granted), "MPI_Query_thread");
  if (granted >= MPI_THREAD_SERIALIZED) return;
  throw std::runtime_error(
      "this MPI library can be called by one thread only: use one that was built with "
      "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
}

DlflowMpiError open(DlflowMpiRanks* ranks) {
  return guarded([&] {
    require_threads();
    MPI_Comm all = MPI_COMM_NULL, near = MPI_COMM_NULL;
    check(MPI_Comm_dup(MPI_COMM_WORLD, &all), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(all, &ranks->rank), "MPI_Comm_rank");
    check(MPI_Comm_size(all, &ranks->size), "MPI_Comm_size");
    check(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, ranks->rank, MPI_INFO_NULL, &near),
          "MPI_Comm_split_type");
    check(MPI_Comm_rank(near, &ranks->node_rank), "MPI_Comm_rank");
    check(MPI_Comm_size(near, &ranks->node_size), "MPI_Comm_size");
    ranks->world = handle_of(all);
    ranks->node = handle_of(near);
  });
}

void close(DlflowMpiRanks* ranks) {
  for (DlflowMpiHandle* handle : {&ranks->node, &ranks->world}) {
    auto comm = own_of<MPI_Comm>(*handle);
    MPI_Comm_free(&comm);
  }
}

DlflowMpiError gather_nodes(const DlflowMpiRanks* ranks, int32_t* first_ranks) {
  return guarded([&] {
    int32_t first = ranks->rank;
    check(MPI_Bcast(&first, 1, MPI_INT32_T, 0, node(ranks)), "MPI_Bcast");
    check(MPI_Allgather(&first, 1, MPI_INT32_T, first_ranks, 1, MPI_INT32_T, world(ranks)),
          "MPI_Allgather");
  });
}

/// Calls `start(&request)`.
template <typename Start>
DlflowMpiError begin(DlflowMpiHandle* request, const char* call, Start start) {
  return guarded([&] {
    MPI_Request own = MPI_REQUEST_NULL;
    check(start(&own), call);
    *request = handle_of(own);
  });
}

DlflowMpiError send(const DlflowMpiRanks* ranks, const void* bytes, int32_t size, int32_t to,
                    int32_t tag, DlflowMpiHandle* request) {
  return begin(request, "MPI_Isend", [&](MPI_Request* own) {
    return MPI_Isend(bytes, size, MPI_BYTE, to, tag, world(ranks), own);
  });
}

DlflowMpiError receive(const DlflowMpiRanks* ranks, void* bytes, int32_t size, int32_t from,
                       int32_t tag, DlflowMpiHandle* request) {
  return begin(request, "MPI_Irecv", [&](MPI_Request* own) {
    return MPI_Irecv(bytes, size, MPI_BYTE, from, tag, world(ranks), own);
  });
}

MPI_Datatype mpi_type(int32_t type) {
  if (type == DLFLOW_MPI_FLOAT32) return MPI_FLOAT;
  return type == DLFLOW_MPI_INT32 ? MPI_INT32_T : MPI_INT64_T;
}

DlflowMpiError sum(const DlflowMpiRanks* ranks, void* values, int32_t count, int32_t type,
                   DlflowMpiHandle* request) {
  return begin(request, "MPI_Iallreduce", [&](MPI_Request* own) {
    return MPI_Iallreduce(MPI_IN_PLACE, values, count, mpi_type(type), MPI_SUM, world(ranks), own);
  });
}

DlflowMpiError node_barrier(const DlflowMpiRanks* ranks, DlflowMpiHandle* request) {
  return begin(request, "MPI_Ibarrier",
               [&](MPI_Request* own) { return MPI_Ibarrier(node(ranks), own); });
}

DlflowMpiError test(DlflowMpiHandle* request, int32_t* progress, int32_t* received) {
  return guarded([&] {
    auto own = own_of<MPI_Request>(*request);
    int ended = 0;
    MPI_Status status;
    const int result = MPI_Test(&own, &ended, &status);
    *request = handle_of(own);
    int error_class = MPI_SUCCESS;
    if (result != MPI_SUCCESS) MPI_Error_class(result, &error_class);
    const bool truncated = error_class == MPI_ERR_TRUNCATE;
    if (!truncated) check(result, "MPI_Test");
    const DlflowMpiProgress whole = ended ? DLFLOW_MPI_ENDED : DLFLOW_MPI_UNDER_WAY;
    *progress = truncated ? DLFLOW_MPI_TRUNCATED : whole;
    if (received == nullptr || *progress == DLFLOW_MPI_UNDER_WAY) return;
    MPI_Get_count(&status, MPI_BYTE, received);
  });
}

DlflowMpiError allocate_shared(const DlflowMpiRanks* ranks, uint64_t bytes, uint64_t* total,
                               DlflowMpiHandle* window) {
  return guarded([&] {
    check(MPI_Allreduce(&bytes, total, 1, MPI_UINT64_T, MPI_SUM, node(ranks)), "MPI_Allreduce");
    MPI_Info info = MPI_INFO_NULL;
    check(MPI_Info_create(&info), "MPI_Info_create");
    check(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");
    void* memory = nullptr;
    MPI_Win own = MPI_WIN_NULL;
    const int status =
        MPI_Win_allocate_shared(MPI_Aint(bytes), 1, info, node(ranks), &memory, &own);
    MPI_Info_free(&info);
    check(status, "MPI_Win_allocate_shared");
    check(MPI_Win_lock_all(MPI_MODE_NOCHECK, own), "MPI_Win_lock_all");
    *window = handle_of(own);
  });
}

DlflowMpiError shared_part(DlflowMpiHandle window, int32_t node_rank, void** part) {
  return guarded([&] {
    MPI_Aint size = 0;
    int unit = 0;
    check(MPI_Win_shared_query(own_of<MPI_Win>(window), node_rank, &size, &unit, part),
          "MPI_Win_shared_query");
  });
}

void free_shared(DlflowMpiHandle window) {
  auto own = own_of<MPI_Win>(window);
  MPI_Win_unlock_all(own);
  MPI_Win_free(&own);
}

constexpr DlflowMpiPlugin kPlugin = {.abi = DLFLOW_MPI_ABI,
                                     .init = init,
                                     .finalize = finalize,
                                     .abort = abort,
                                     .rank = rank,
                                     .library = library,
                                     .open = open,
                                     .close = close,
                                     .gather_nodes = gather_nodes,
                                     .send = send,
                                     .receive = receive,
                                     .sum = sum,
                                     .node_barrier = node_barrier,
                                     .test = test,
                                     .allocate_shared = allocate_shared,
                                     .shared_part = shared_part,
                                     .free_shared = free_shared};

}  // namespace
}  // namespace dlflow::runtime

extern "C" __attribute__((visibility("default"))) const DlflowMpiPlugin* dlflow_mpi_plugin() {
  return &dlflow::runtime::kPlugin;
}
