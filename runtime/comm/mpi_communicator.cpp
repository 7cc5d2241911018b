#include "runtime/comm/mpi_communicator.h"

#include <dlfcn.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mpi.h"
#include "base/process.h"
#include "base/units.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/patience.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMaxMessageBytes = size_t(1) << 30;  // MPI 3 counts with int
constexpr size_t kAlignment = 64;

/// Held while messages are started or polled: MPI_THREAD_SERIALIZED.
std::mutex mpi_calls;

/// The plug-in of MpiEnvironment; global because MPI exists once per process.
const DlflowMpiPlugin* mpi = nullptr;

void check(DlflowMpiError error) {
  if (error) throw Error(Errc::Unavailable, error);
}

/// Open MPI's switch for whether its waits call sched_yield(); it returns the previous setting;
/// null in other libraries. Users can set it only at the start (mpi_yield_when_idle), and then
/// MPI_Test yields, too, which delays messages of ranks that have a core of their own.
using YieldSwitch = bool (*)(bool);
YieldSwitch yield_switch() {
  return reinterpret_cast<YieldSwitch>(::dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle"));
}

/// Free space in the file system that MPI uses for shared memory.
uint64_t free_shared_bytes() {
  struct statvfs room {};
  const bool has_limit = ::statvfs("/dev/shm", &room) == 0 && room.f_blocks > 0;
  if (!has_limit) return UINT64_MAX;
  return uint64_t(room.f_bavail) * room.f_frsize;
}

/// The first address at or after `memory` that is a multiple of 64 bytes.
std::byte* aligned(void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (kAlignment - address % kAlignment) % kAlignment;
}

/// MPI 3 has no type for 16-bit floats.
std::optional<DlflowMpiType> mpi_type(DataType type) {
  switch (type) {
    case DataType::Float32:
      return DLFLOW_MPI_FLOAT32;
    case DataType::Int32:
      return DLFLOW_MPI_INT32;
    case DataType::Int64:
      return DLFLOW_MPI_INT64;
    case DataType::Float16:
    case DataType::BFloat16:
      break;
  }
  return std::nullopt;
}

/// Calls `post(piece)` for consecutive pieces that MPI's int can count; once if `bytes` is empty.
template <typename Byte, typename Post>
void for_each_piece(std::span<Byte> bytes, Post post) {
  do {
    const auto piece = bytes.first(std::min(bytes.size(), kMaxMessageBytes));
    post(piece);
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
}

namespace fs = std::filesystem;

/// The interfaces that the launcher may use, the likeliest first. srun starts ranks of both.
std::vector<MpiInterface> interfaces() {
  const auto is_set = [](const char* name) { return !environment_variable(name).empty(); };
  if (is_set("OMPI_COMM_WORLD_SIZE")) return {kOpenMpi};
  if (is_set("MPI_LOCALNRANKS") || is_set("MV2_COMM_WORLD_SIZE")) return {kMpich};
  if (is_set("PMI_RANK") && !is_set("PMIX_RANK")) return {kMpich, kOpenMpi};
  return {kOpenMpi, kMpich};
}

fs::path plugin_file(const char* name) {
  return this_program().parent_path().parent_path() / "lib/dlflow" / name;
}

/// The library stays open: its threads and exit handlers outlive MPI_Finalize.
SharedLibrary open_library(const MpiInterface& interface) {
  std::string problems;
  for (const char* name : interface.libraries) {
    try {
      // RTLD_GLOBAL: its components and our plug-in are libraries opened later, which call it.
      return SharedLibrary(name, RTLD_GLOBAL | RTLD_NODELETE);
    } catch (const Error& error) {
      if (problems.empty()) problems = error.what();
    }
  }
  throw Error(Errc::NotFound, problems);
}

}  // namespace

MpiLibrary::MpiLibrary() {
  std::string problems;
  for (const MpiInterface& interface : interfaces()) {
    try {
      library_ = open_library(interface);
      plugin_ = SharedLibrary(plugin_file(interface.plugin), RTLD_NODELETE);
      plugin_name_ = interface.plugin;
      functions_ =
          plugin_->functions<DlflowMpiPluginFunction>(DLFLOW_MPI_PLUGIN_SYMBOL, DLFLOW_MPI_ABI);
      return;
    } catch (const Error& error) {
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error(Errc::NotFound, "the MPI library of this launcher cannot be opened (" + problems +
                                  "); load the module of the launcher's MPI, or set "
                                  "LD_LIBRARY_PATH to the folder of its libraries");
}

std::string MpiLibrary::name() const {
  const std::string text = functions_->library();
  std::istringstream words(text.substr(0, text.find_first_of(",\n")));
  std::string name;
  for (std::string word; words >> word;) name += (name.empty() ? "" : " ") + word;
  return name + ", plug-in " + plugin_name_;
}

PoliteMpi::PoliteMpi() {
  if (const YieldSwitch yields = yield_switch()) before_ = yields(true);
}

PoliteMpi::~PoliteMpi() {
  if (before_) yield_switch()(*before_);
}

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  mpi = library_.functions();
  mpi->init(&argc, &argv);
}

MpiEnvironment::~MpiEnvironment() { mpi->finalize(); }

int MpiEnvironment::rank() const { return mpi->rank(); }

void MpiEnvironment::abort(int exit_status) const {
  mpi->abort(exit_status);
  std::abort();  // MPI_Abort is not declared noreturn
}

MpiCommunicator::MpiCommunicator(std::chrono::milliseconds timeout)
    : timeout_(timeout), exceptions_at_start_(std::uncaught_exceptions()) {
  const PoliteMpi polite;
  check(mpi->open(&ranks_));
  find_nodes();
}

void MpiCommunicator::find_nodes() {
  nodes_.resize(size_t(size()));
  check(mpi->gather_nodes(&ranks_, nodes_.data()));
  int next = 0;
  std::vector<int> numbers(size_t(size()), -1);  // of the node with this first rank
  for (int& node : nodes_) {
    int& number = numbers[size_t(node)];
    if (number < 0) number = next++;
    node = number;
  }
}

MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() > exceptions_at_start_) return;
  const PoliteMpi polite;
  for (const Window& window : windows_) mpi->free_shared(window.handle);
  mpi->close(&ranks_);
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

MpiCommunicator::Piece& MpiCommunicator::new_piece(const Transfer& transfer, size_t bytes) {
  return under_way_[transfer.number].emplace_back(Piece{0, bytes});
}

Transfer MpiCommunicator::start_send(std::span<const std::byte> bytes, int to, int channel) {
  const std::lock_guard lock(mpi_calls);
  const Transfer transfer{to, channel, false, {}, new_number()};
  for_each_piece(bytes, [&](std::span<const std::byte> piece) {
    check(mpi->send(&ranks_, piece.data(), int(piece.size()), to, channel,
                    &new_piece(transfer, piece.size()).request));
  });
  return transfer;
}

Transfer MpiCommunicator::start_receive(std::span<std::byte> bytes, int from, int channel) {
  const std::lock_guard lock(mpi_calls);
  const Transfer transfer{from, channel, true, bytes, new_number()};
  for_each_piece(bytes, [&](std::span<std::byte> piece) {
    check(mpi->receive(&ranks_, piece.data(), int(piece.size()), from, channel,
                       &new_piece(transfer, piece.size()).request));
  });
  return transfer;
}

bool MpiCommunicator::can_sum(DataType type) const { return mpi_type(type).has_value(); }

Transfer MpiCommunicator::start_sum(const Values& values) {
  const auto type = mpi_type(values.type);
  DLFLOW_CHECK(type);
  const std::lock_guard lock(mpi_calls);
  const Transfer transfer{-1, 0, false, {}, new_number()};
  for_each_piece(values.bytes(), [&](std::span<std::byte> piece) {
    check(mpi->sum(&ranks_, piece.data(), int(piece.size() / size_of(values.type)), *type,
                   &new_piece(transfer, piece.size()).request));
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
  int32_t progress = DLFLOW_MPI_UNDER_WAY, received = 0;
  check(mpi->test(&piece.request, &progress, transfer.receives ? &received : nullptr));
  if (progress == DLFLOW_MPI_UNDER_WAY) return false;
  const bool truncated = progress == DLFLOW_MPI_TRUNCATED;
  if (transfer.receives && (truncated || size_t(received) != piece.bytes)) {
    throw_size_mismatch(rank(), transfer.peer, piece.bytes, size_t(received));
  }
  return true;
}

bool MpiCommunicator::has_room_for(size_t bytes) {
  struct Wanted {
    uint64_t bytes, free;
  };
  constexpr uint64_t kOfMpi = 1 << 20;  // used by MPI itself
  uint64_t wanted = kOfMpi, free = UINT64_MAX;
  for (const Wanted& one : gather_in_node(*this, Wanted{bytes, free_shared_bytes()})) {
    wanted += one.bytes;
    free = std::min(free, one.free);
  }
  if (wanted <= free) return true;
  if (node_rank() == 0 && memories_.empty()) {
    std::fprintf(stderr,
                 "note: the ranks of this node share %s of memory without /dev/shm, which has %s "
                 "free\n",
                 format_size(wanted).c_str(), format_size(free).c_str());
  }
  return false;
}

std::span<std::byte* const> MpiCommunicator::allocate_shared(size_t bytes) {
  wait_for_node();  // under the watch, unlike MPI_Win_allocate_shared
  if (!has_room_for(bytes + kAlignment)) return memories_.emplace_back(*this, bytes).parts();
  const PoliteMpi polite;
  uint64_t total = 0;  // of all ranks of the node
  Window& window = windows_.emplace_back();
  const DlflowMpiError error =
      mpi->allocate_shared(&ranks_, bytes + kAlignment, &total, &window.handle);
  if (error) windows_.pop_back();
  check(error);
  for (int rank = 0; rank < node_size(); ++rank) {
    void* part = nullptr;
    check(mpi->shared_part(window.handle, rank, &part));
    // MPI's alignment is below 64 bytes, but every process maps the parts at page boundaries, so
    // that all skip the same bytes.
    window.parts.push_back(aligned(part));
  }
  std::memset(window.parts[size_t(node_rank())], 0, bytes);
  wait_for_node();  // no rank may write to a part before its owner has cleared it
  return window.parts;
}

void MpiCommunicator::wait_for_node() {
  DlflowMpiHandle request = 0;
  check(mpi->node_barrier(&ranks_, &request));
  for (Patience patience(*this);;) {
    int32_t progress = DLFLOW_MPI_UNDER_WAY;
    check(mpi->test(&request, &progress, nullptr));
    if (progress == DLFLOW_MPI_ENDED) return;
    if (!patience.wait()) {
      throw Error(Errc::Unavailable, "rank " + std::to_string(rank()) +
                                         ": a rank of this node did not join to share memory");
    }
  }
}

}  // namespace dlflow::runtime
