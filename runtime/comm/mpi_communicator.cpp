#include "runtime/comm/mpi_communicator.h"

#include <dlfcn.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "runtime/comm/messages.h"
#include "runtime/comm/patience.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMaxMessageBytes = size_t(1) << 30;  // MPI 3 counts with int
constexpr size_t kAlignment = 64;

/// Held wherever messages are started or looked after: MPI_THREAD_SERIALIZED.
std::mutex mpi_calls;

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Error(Errc::Unavailable, std::string(call) + ": " + std::string(text, length));
}

/// Some libraries grant less than MPI_Init_thread asks for, and say so only here.
void require_threads() {
  int granted = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&granted), "MPI_Query_thread");
  if (granted >= MPI_THREAD_SERIALIZED) return;
  throw Error(Errc::Unavailable,
              "this MPI library can be called by one thread only: use one that was built with "
              "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
}

/// Open MPI's switch for whether its waits call sched_yield(), which returns how it was; null in
/// other libraries. Users can set it at the start alone (mpi_yield_when_idle), and then MPI_Test
/// yields, too: messages take longer where every rank has a core of its own.
using YieldSwitch = bool (*)(bool);
YieldSwitch yield_switch() {
  return reinterpret_cast<YieldSwitch>(::dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle"));
}

/// Room for memory that the processes of a node share is that of a file system.
void check_shared(int status, uint64_t bytes) {
  if (status == MPI_SUCCESS) return;
  struct statvfs room {};
  const bool known = ::statvfs("/dev/shm", &room) == 0;
  const uint64_t free = known ? uint64_t(room.f_bavail) * room.f_frsize : 0;
  if (free >= bytes) check(status, "MPI_Win_allocate_shared");
  throw Error(Errc::Unavailable,
              "the ranks of this node need " + format_size(bytes) +
                  " of shared memory, and /dev/shm has " + format_size(free) +
                  " free; ask the site for more (a container: docker's --shm-size)");
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

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::Float32:
      return MPI_FLOAT;
    case DataType::Int32:
      return MPI_INT32_T;
    case DataType::Int64:
      return MPI_INT64_T;
    case DataType::Float16:
    case DataType::BFloat16:
      break;
  }
  return MPI_DATATYPE_NULL;
}

PoliteMpi::PoliteMpi() {
  if (const YieldSwitch yields = yield_switch()) before_ = yields(true);
}

PoliteMpi::~PoliteMpi() {
  if (before_) yield_switch()(*before_);
}

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);  // a failure ends the process
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

MpiCommunicator::MpiCommunicator(std::chrono::milliseconds timeout)
    : timeout_(timeout), exceptions_at_start_(std::uncaught_exceptions()) {
  const PoliteMpi polite;
  require_threads();
  check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(world_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(world_, &size_), "MPI_Comm_size");
  check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node_),
        "MPI_Comm_split_type");
  check(MPI_Comm_rank(node_, &node_rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(node_, &node_size_), "MPI_Comm_size");
  find_nodes();
}

void MpiCommunicator::find_nodes() {
  int first = rank_;  // of this node
  check(MPI_Bcast(&first, 1, MPI_INT, 0, node_), "MPI_Bcast");
  nodes_.resize(size_t(size_));
  check(MPI_Allgather(&first, 1, MPI_INT, nodes_.data(), 1, MPI_INT, world_), "MPI_Allgather");
  int next = 0;
  std::vector<int> numbers(size_t(size_), -1);  // of the node that has this first rank
  for (int& node : nodes_) {
    int& number = numbers[size_t(node)];
    if (number < 0) number = next++;
    node = number;
  }
}

MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() > exceptions_at_start_) return;
  const PoliteMpi polite;
  for (Window& window : windows_) {
    MPI_Win_unlock_all(window.handle);
    MPI_Win_free(&window.handle);
  }
  MPI_Comm_free(&node_);
  MPI_Comm_free(&world_);
}

uint64_t MpiCommunicator::new_number() {
  if (free_numbers_.empty()) {
    under_way_.emplace_back();
    return under_way_.size() - 1;
  }
  const uint64_t number = free_numbers_.back();
  free_numbers_.pop_back();
  return number;
}

Transfer MpiCommunicator::start_send(std::span<const std::byte> bytes, int to, int channel) {
  const std::lock_guard lock(mpi_calls);
  const Transfer transfer{to, channel, false, {}, new_number()};
  for_each_piece(bytes, [&](std::span<const std::byte> piece) {
    MPI_Request& request = under_way_[transfer.number].emplace_back(Piece{}).request;
    check(MPI_Isend(piece.data(), int(piece.size()), MPI_BYTE, to, channel, world_, &request),
          "MPI_Isend");
  });
  return transfer;
}

Transfer MpiCommunicator::start_receive(std::span<std::byte> bytes, int from, int channel) {
  const std::lock_guard lock(mpi_calls);
  const Transfer transfer{from, channel, true, bytes, new_number()};
  for_each_piece(bytes, [&](std::span<std::byte> piece) {
    MPI_Request& request =
        under_way_[transfer.number].emplace_back(Piece{MPI_REQUEST_NULL, piece.size()}).request;
    check(MPI_Irecv(piece.data(), int(piece.size()), MPI_BYTE, from, channel, world_, &request),
          "MPI_Irecv");
  });
  return transfer;
}

bool MpiCommunicator::can_sum(DataType type) const { return mpi_type(type) != MPI_DATATYPE_NULL; }

Transfer MpiCommunicator::start_sum(const Values& values) {
  DLFLOW_CHECK(can_sum(values.type));
  const std::lock_guard lock(mpi_calls);
  const Transfer transfer{-1, 0, false, {}, new_number()};
  for_each_piece(values.bytes(), [&](std::span<std::byte> piece) {
    MPI_Request& request = under_way_[transfer.number].emplace_back(Piece{}).request;
    check(MPI_Iallreduce(MPI_IN_PLACE, piece.data(), int(piece.size() / size_of(values.type)),
                         mpi_type(values.type), MPI_SUM, world_, &request),
          "MPI_Iallreduce");
  });
  return transfer;
}

bool MpiCommunicator::done(Transfer& transfer) {
  if (transfer.number == Transfer::kDone) return true;
  const std::lock_guard lock(mpi_calls);
  std::vector<Piece>& pieces = under_way_[transfer.number];
  while (!pieces.empty() && done(pieces.back(), transfer)) pieces.pop_back();
  if (!pieces.empty()) return false;
  free_numbers_.push_back(transfer.number);
  transfer.number = Transfer::kDone;
  return true;
}

bool MpiCommunicator::done(Piece& piece, const Transfer& transfer) const {
  int ended = 0;
  MPI_Status status;
  const int result = MPI_Test(&piece.request, &ended, &status);
  int error_class = MPI_SUCCESS;
  if (result != MPI_SUCCESS) MPI_Error_class(result, &error_class);
  const bool truncated = error_class == MPI_ERR_TRUNCATE;
  if (!truncated) check(result, "MPI_Test");
  if (!truncated && !ended) return false;
  if (transfer.receives) {
    int received = 0;
    MPI_Get_count(&status, MPI_BYTE, &received);
    if (truncated || size_t(received) != piece.expected_bytes) {
      throw_size_mismatch(rank_, transfer.peer, piece.expected_bytes, size_t(received));
    }
  }
  return true;
}

std::span<std::byte* const> MpiCommunicator::allocate_shared(size_t bytes) {
  wait_for_node();  // watched over, as MPI_Win_allocate_shared is not
  const PoliteMpi polite;
  uint64_t total = bytes + kAlignment;  // of all ranks of the node
  check(MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UINT64_T, MPI_SUM, node_), "MPI_Allreduce");
  MPI_Info info = MPI_INFO_NULL;
  check(MPI_Info_create(&info), "MPI_Info_create");
  // Each part on pages of its own, so that it lies in the memory next to its rank's core.
  check(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");
  void* memory = nullptr;
  MPI_Win handle = MPI_WIN_NULL;
  const int status =
      MPI_Win_allocate_shared(MPI_Aint(bytes + kAlignment), 1, info, node_, &memory, &handle);
  MPI_Info_free(&info);
  check_shared(status, total);
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
  for (Patience patience(*this);;) {
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
