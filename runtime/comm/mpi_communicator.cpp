#include "runtime/comm/mpi_communicator.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "base/error.h"
#include "runtime/comm/messages.h"
#include "runtime/comm/patience.h"

namespace dlflow::runtime {
namespace {

constexpr int kTag = 1;
constexpr size_t kMaxMessageBytes = size_t(1) << 30;  // MPI 3 counts with int
constexpr size_t kAlignment = 64;

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Error(Errc::Unavailable, std::string(call) + ": " + std::string(text, length));
}

/// The first address at or after `memory` that is a multiple of 64 bytes.
std::byte* aligned(void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (kAlignment - address % kAlignment) % kAlignment;
}

/// Calls `post(piece)` for consecutive pieces that MPI can count; once if `bytes` is empty.
template <typename Byte, typename Post>
void for_each_piece(std::span<Byte> bytes, Post post) {
  do {
    const auto piece = bytes.first(std::min(bytes.size(), kMaxMessageBytes));
    post(piece);
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
}

}  // namespace

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);  // a failure ends the process
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

MpiEnvironment::~MpiEnvironment() { MPI_Finalize(); }

int MpiEnvironment::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void MpiEnvironment::abort(int exit_status) const {
  MPI_Abort(MPI_COMM_WORLD, exit_status);
  std::abort();  // MPI_Abort is not declared to stay away
}

/// One message under way.
struct MpiCommunicator::Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  int peer = 0;
  bool receives = false;
  size_t expected_bytes = 0;  // of a receive
};

MpiCommunicator::MpiCommunicator(std::chrono::milliseconds timeout)
    : timeout_(timeout), exceptions_at_start_(std::uncaught_exceptions()) {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(world_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(world_, &size_), "MPI_Comm_size");
  check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node_),
        "MPI_Comm_split_type");
  check(MPI_Comm_rank(node_, &node_rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(node_, &node_size_), "MPI_Comm_size");
}

MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() > exceptions_at_start_) return;
  for (Window& window : windows_) {
    MPI_Win_unlock_all(window.handle);
    MPI_Win_free(&window.handle);
  }
  MPI_Comm_free(&node_);
  MPI_Comm_free(&world_);
}

void MpiCommunicator::post_send(std::span<const std::byte> bytes, int to,
                                std::vector<Transfer>& transfers) {
  for_each_piece(bytes, [&](std::span<const std::byte> piece) {
    Transfer& transfer = transfers.emplace_back(Transfer{.peer = to});
    check(MPI_Isend(piece.data(), int(piece.size()), MPI_BYTE, to, kTag, world_, &transfer.request),
          "MPI_Isend");
  });
}

void MpiCommunicator::post_receive(std::span<std::byte> bytes, int from,
                                   std::vector<Transfer>& transfers) {
  for_each_piece(bytes, [&](std::span<std::byte> piece) {
    Transfer& transfer = transfers.emplace_back(
        Transfer{.peer = from, .receives = true, .expected_bytes = piece.size()});
    check(
        MPI_Irecv(piece.data(), int(piece.size()), MPI_BYTE, from, kTag, world_, &transfer.request),
        "MPI_Irecv");
  });
}

void MpiCommunicator::wait(std::vector<Transfer>& transfers) {
  Patience patience(timeout_);
  for (Transfer& transfer : transfers) {
    for (;;) {
      int done = 0;
      MPI_Status status;
      const int result = MPI_Test(&transfer.request, &done, &status);
      int error_class = MPI_SUCCESS;
      if (result != MPI_SUCCESS) MPI_Error_class(result, &error_class);
      const bool truncated = error_class == MPI_ERR_TRUNCATE;
      if (!truncated) check(result, "MPI_Test");
      if (truncated || done) {
        int received = 0;
        if (transfer.receives) MPI_Get_count(&status, MPI_BYTE, &received);
        if (truncated || (transfer.receives && size_t(received) != transfer.expected_bytes)) {
          throw_size_mismatch(rank_, transfer.peer, transfer.expected_bytes, received);
        }
        break;
      }
      if (!patience.wait()) throw_no_answer(rank_, transfer.peer, timeout_);
    }
  }
}

void MpiCommunicator::send_receive(std::span<const std::byte> bytes, int to,
                                   std::span<std::byte> received, int from) {
  std::vector<Transfer> transfers;
  post_receive(received, from, transfers);
  post_send(bytes, to, transfers);
  wait(transfers);
}

void MpiCommunicator::send(std::span<const std::byte> bytes, int to) {
  std::vector<Transfer> transfers;
  post_send(bytes, to, transfers);
  wait(transfers);
}

void MpiCommunicator::receive(std::span<std::byte> bytes, int from) {
  std::vector<Transfer> transfers;
  post_receive(bytes, from, transfers);
  wait(transfers);
}

std::span<std::byte* const> MpiCommunicator::allocate_shared(size_t bytes) {
  MPI_Info info = MPI_INFO_NULL;
  check(MPI_Info_create(&info), "MPI_Info_create");
  // Each part on pages of its own, so that it lies in the memory next to its rank's core.
  check(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");
  void* memory = nullptr;
  MPI_Win handle = MPI_WIN_NULL;
  const int status =
      MPI_Win_allocate_shared(MPI_Aint(bytes + kAlignment), 1, info, node_, &memory, &handle);
  MPI_Info_free(&info);
  check(status, "MPI_Win_allocate_shared");
  // From now on plain loads, stores and atomics reach all parts.
  check(MPI_Win_lock_all(MPI_MODE_NOCHECK, handle), "MPI_Win_lock_all");

  Window& window = windows_.emplace_back(Window{handle, {}});
  for (int rank = 0; rank < node_size_; ++rank) {
    MPI_Aint size = 0;
    int unit = 0;
    void* part = nullptr;
    check(MPI_Win_shared_query(handle, rank, &size, &unit, &part), "MPI_Win_shared_query");
    // MPI aligns less than 64 bytes, but every process maps the parts at page boundaries: all of
    // them skip the same bytes.
    window.parts.push_back(aligned(part));
  }
  std::memset(window.parts[node_rank_], 0, bytes);
  wait_for_node();  // before anybody writes to a part that its owner has still to clear
  return window.parts;
}

void MpiCommunicator::wait_for_node() {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(node_, &request), "MPI_Ibarrier");
  for (Patience patience(timeout_);;) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) return;
    if (!patience.wait()) {
      throw Error(Errc::Unavailable, "rank " + std::to_string(rank_) +
                                         ": a rank of this node did not come to share memory");
    }
  }
}

}  // namespace dlflow::runtime
