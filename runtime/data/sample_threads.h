#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace dlflow::runtime {

/// Threads that prepare the samples of a batch together with the calling thread. They wait between
/// batches, and end with this object.
class SampleThreads {
 public:
  /// \param others  threads besides the caller's, at least one
  explicit SampleThreads(size_t others);

  /// Called with an item and the index of the thread: 0 for the caller's.
  using Work = std::function<void(size_t item, size_t thread)>;

  /// Calls `work` once for each item below `count`, on any thread, and returns when all threads are
  /// done. Rethrows the exception of the first item that threw one.
  void run(size_t count, const Work& work);

 private:
  void wait_for_work(const std::stop_token& stop, size_t thread);
  void take_items(const Work& work, size_t count, size_t thread);

  std::atomic<size_t> next_item_ = 0;

  std::mutex mutex_;  // guards the following members
  std::condition_variable_any changed_;
  const Work* work_ = nullptr;
  size_t count_ = 0;
  uint64_t round_ = 0;  // number of calls of run()
  size_t at_work_ = 0;  // threads that have not finished the round
  size_t failed_item_ = std::numeric_limits<size_t>::max();
  std::exception_ptr error_;

  std::vector<std::jthread> threads_;  // last member, so that they end first
};

}  // namespace dlflow::runtime
