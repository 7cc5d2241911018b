#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/gpu/nccl_library.h"
#include "runtime/gpu/session.h"

namespace dlflow::runtime {

/// A collective call under way: returned by start_*, passed to done().
struct DeviceTransfer {
  static constexpr size_t kDone = SIZE_MAX;

  const char* operation = "";  ///< "all-reduce"
  size_t num_elements = 0;
  size_t number = kDone;  ///< the communicator's index of this call
};

/// One rank's end of a group of P ranks with a GPU each, which exchange data through NCCL. Same
/// shape as MpiCommunicator: calls start work and never wait for peers; done() polls, and wait()
/// gives up after timeout(). All ranks make the same calls in the same order. The work runs on a
/// stream of its own, after everything enqueued so far on the stream `after`. Users of the result
/// must be held back (hold_back) or wait.
///
/// Failures throw Error{Unavailable} naming this rank and the call, with NCCL's message, or the
/// WatchError of a watch, which has a better reason. All work on the device is then aborted
/// (ncclCommAbort), and this is unusable. Must be used by one thread at a time.
class NcclCommunicator {
 public:
  /// Collective over `host`, and uses its timeout and watch. Uses the thread's current device,
  /// which no other rank may use (choose_device). The arguments must outlive this.
  NcclCommunicator(Communicator& host, const NcclLibrary& library, const GpuPlugin& plugin);

  /// Collective, except while an exception unwinds or after an Error: then it aborts all work,
  /// since the other ranks may never arrive.
  ~NcclCommunicator();

  int rank() const { return host_.rank(); }
  int size() const { return host_.size(); }
  std::chrono::milliseconds timeout() const { return host_.timeout(); }

  /// Starts to replace `values` by their sum over all ranks.
  DeviceTransfer start_sum(DeviceFloats values, DlflowGpuStream after);

  /// Delays work enqueued on `stream` from now on until `transfer` has ended, without a host wait.
  void hold_back(DlflowGpuStream stream, const DeviceTransfer& transfer) const;

  /// Whether `transfer` has ended; never waits.
  bool done(DeviceTransfer& transfer);
  void wait(DeviceTransfer& transfer);

  /// Throws if NCCL has failed since. For callers that wait for work which depends on transfers;
  /// `during` names it.
  void check(const char* during);

 private:
  template <typename Call>
  DeviceTransfer start(const char* operation, size_t num_elements, DlflowGpuStream after,
                       Call call);
  void settle(nccl::Result result, const char* call);
  [[noreturn]] void fail(const std::string& what);
  std::string words_for(nccl::Result result) const;
  void abort() noexcept;
  size_t new_number();

  Communicator& host_;
  const NcclLibrary& library_;
  const GpuPlugin& plugin_;
  int exceptions_at_start_;
  std::unique_ptr<void, void (*)(DlflowGpuStream)> stream_;
  GpuEvent before_;
  nccl::Comm* comm_ = nullptr;  // null once aborted
  std::vector<GpuEvent> ends_;  // indexed by the number of a transfer
  std::vector<size_t> free_numbers_;
};

}  // namespace dlflow::runtime
