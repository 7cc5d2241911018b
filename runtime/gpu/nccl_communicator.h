#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/gpu/nccl_library.h"
#include "runtime/gpu/session.h"

namespace dlflow::runtime {

/// A collective call under way; what start_* return and done() asks about.
struct DeviceTransfer {
  static constexpr size_t kDone = SIZE_MAX;

  const char* operation = "";  ///< "all-reduce"
  size_t num_elements = 0;
  size_t number = kDone;  ///< what the communicator calls it
};

/// One rank's end of a group of P ranks with a GPU each, whose memory they exchange through NCCL.
/// Repeats the shape of MpiCommunicator: calls begin something and never wait for peers; done()
/// looks, wait() gives up after timeout(). All ranks make the same calls in the same order. Work is
/// done on a stream of its own: it begins behind what the stream `after` was given so far, and what
/// uses its result is to be held back (hold_back) or waited for.
///
/// What goes wrong is Error{Unavailable} naming this rank and the call, in the words of NCCL, or
/// the WatchError of a watch that knows better. All of it is ended on the device then
/// (ncclCommAbort), and this is unusable. One thread at a time calls it.
class NcclCommunicator {
 public:
  /// Collective over `host`, whose timeout and watch are this one's. The current device of the
  /// thread is used, and no other rank's may be it (choose_device). What is given must outlive
  /// this.
  NcclCommunicator(Communicator& host, const NcclLibrary& library, const GpuPlugin& plugin);

  /// Collective, except while an exception unwinds or after an Error: then everything is aborted,
  /// since the other ranks may never come here.
  ~NcclCommunicator();

  int rank() const { return host_.rank(); }
  int size() const { return host_.size(); }
  std::chrono::milliseconds timeout() const { return host_.timeout(); }

  /// Begins to replace `values` by their sum over all ranks.
  DeviceTransfer start_sum(DeviceFloats values, DlflowGpuStream after);

  /// What `stream` is given from now on begins after `transfer` has ended; nobody waits here.
  void hold_back(DlflowGpuStream stream, const DeviceTransfer& transfer) const;

  /// Whether `transfer` has ended; never waits.
  bool done(DeviceTransfer& transfer);
  void wait(DeviceTransfer& transfer);

  /// Throws if NCCL has noticed since that it cannot go on. For those who wait for what waits for
  /// transfers; `during` is what they do.
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
  nccl::Comm* comm_ = nullptr;  // null once it was aborted
  std::vector<GpuEvent> ends_;  // [number of a transfer]
  std::vector<size_t> free_numbers_;
};

}  // namespace dlflow::runtime
