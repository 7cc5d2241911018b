#include "runtime/gpu/nccl_communicator.h"

#include <fmt/core.h>

#include <exception>
#include <utility>

#include "base/error.h"
#include "runtime/comm/patience.h"

namespace dlflow::runtime {
namespace {

DlflowGpuStream make_stream(const GpuPlugin& plugin) {
  DlflowGpuStream stream = nullptr;
  check_gpu(plugin->create_stream(&stream), "creating a stream");
  return stream;
}

}  // namespace

NcclCommunicator::NcclCommunicator(Communicator& host, const NcclLibrary& library,
                                   const GpuPlugin& plugin)
    : host_(host),
      library_(library),
      plugin_(plugin),
      exceptions_at_start_(std::uncaught_exceptions()),
      stream_(make_stream(plugin), plugin->destroy_stream),
      before_(plugin) {
  nccl::UniqueId id = {};
  if (rank() == 0) {
    const nccl::Result result = library_.get_unique_id(&id);
    if (result != nccl::kSuccess) fail("ncclGetUniqueId: " + words_for(result));
  }
  host_.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  nccl::Config config;
  const nccl::Result result = library_.init(&comm_, size(), id, rank(), &config);
  try {
    settle(result, "ncclCommInitRankConfig");
  } catch (...) {  // the destructor will not run
    abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    abort();
    return;
  }
  try {
    settle(library_.finalize(comm_), "ncclCommFinalize");
    library_.destroy(comm_);
  } catch (const Error&) {
    abort();  // needed if the watch threw
  }
}

DeviceTransfer NcclCommunicator::start_sum(DeviceFloats values, DlflowGpuStream after) {
  return start("all-reduce", values.count, after, [&] {
    return library_.all_reduce(values.data, values.data, values.count, nccl::kFloat32, nccl::kSum,
                               comm_, stream_.get());
  });
}

template <typename Call>
DeviceTransfer NcclCommunicator::start(const char* operation, size_t num_elements,
                                       DlflowGpuStream after, Call call) {
  check(operation);
  const size_t number = new_number();
  before_.record(after);
  before_.hold_back(stream_.get());
  settle(call(), operation);
  ends_[number].record(stream_.get());
  return {operation, num_elements, number};
}

size_t NcclCommunicator::new_number() {
  if (free_numbers_.empty()) {
    ends_.emplace_back(plugin_);
    return ends_.size() - 1;
  }
  const size_t number = free_numbers_.back();
  free_numbers_.pop_back();
  return number;
}

void NcclCommunicator::hold_back(DlflowGpuStream stream, const DeviceTransfer& transfer) const {
  if (transfer.number != DeviceTransfer::kDone) ends_[transfer.number].hold_back(stream);
}

bool NcclCommunicator::done(DeviceTransfer& transfer) {
  if (transfer.number == DeviceTransfer::kDone) return true;
  check(transfer.operation);
  if (!ends_[transfer.number].done()) return false;
  free_numbers_.push_back(std::exchange(transfer.number, DeviceTransfer::kDone));
  return true;
}

void NcclCommunicator::wait(DeviceTransfer& transfer) {
  for (Patience patience(host_); !done(transfer);) {
    if (patience.wait()) continue;
    fail(
        fmt::format("{} of {} floats did not end within {:g} s; see the other ranks' messages and "
                    "whether their nodes are up",
                    transfer.operation, transfer.num_elements, double(timeout().count()) / 1000));
  }
}

void NcclCommunicator::check(const char* during) {
  if (comm_ == nullptr) fail(std::string(during) + ": it was aborted before");
  nccl::Result state = nccl::kSuccess;
  const nccl::Result result = library_.get_async_error(comm_, &state);
  if (result != nccl::kSuccess) fail("ncclCommGetAsyncError: " + words_for(result));
  if (state != nccl::kSuccess && state != nccl::kInProgress) {
    fail(std::string(during) + ": " + words_for(state));
  }
}

/// A non-blocking communicator returns "in progress", and takes no other call until that ends.
void NcclCommunicator::settle(nccl::Result result, const char* call) {
  if (result != nccl::kSuccess && result != nccl::kInProgress) {
    fail(std::string(call) + ": " + words_for(result));
  }
  for (Patience patience(host_); result == nccl::kInProgress;) {
    nccl::Result state = nccl::kSuccess;
    result = library_.get_async_error(comm_, &state);
    if (result != nccl::kSuccess || (state != nccl::kSuccess && state != nccl::kInProgress)) {
      fail(std::string(call) + ": " + words_for(result != nccl::kSuccess ? result : state));
    }
    result = state;
    if (result == nccl::kInProgress && !patience.wait()) {
      fail(
          fmt::format("{} did not complete within {:g} s; see the other ranks' messages and "
                      "whether their nodes are up",
                      call, double(timeout().count()) / 1000));
    }
  }
}

std::string NcclCommunicator::words_for(nccl::Result result) const {
  const char* more = library_.last_error(comm_);
  const std::string text = library_.error_text(result);
  return more && *more ? text + " (" + more + ")" : text;
}

void NcclCommunicator::fail(const std::string& what) {
  abort();
  throw Error(Errc::Unavailable, fmt::format("rank {}: NCCL: {}", rank(), what));
}

/// During the first call, NCCL's thread writes to comm_ until abort() has joined it.
void NcclCommunicator::abort() noexcept {
  if (comm_ != nullptr) library_.abort(comm_);
  comm_ = nullptr;
}

}  // namespace dlflow::runtime
