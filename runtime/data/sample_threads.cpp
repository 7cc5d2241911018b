#include "runtime/data/sample_threads.h"

#include <utility>

namespace dlflow::runtime {

SampleThreads::SampleThreads(size_t others) {
  for (size_t i = 1; i <= others; ++i) {
    threads_.emplace_back([this, i](const std::stop_token& stop) { wait_for_work(stop, i); });
  }
}

void SampleThreads::run(size_t count, const Work& work) {
  {
    const std::lock_guard lock(mutex_);
    next_item_ = 0;
    work_ = &work;
    count_ = count;
    failed_item_ = std::numeric_limits<size_t>::max();
    at_work_ = threads_.size();
    ++round_;
  }
  changed_.notify_all();
  take_items(work, count, 0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return at_work_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void SampleThreads::wait_for_work(const std::stop_token& stop, size_t thread) {
  uint64_t last_round = 0;
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return round_ != last_round; })) {
    last_round = round_;
    const Work& work = *work_;
    const size_t count = count_;
    lock.unlock();
    take_items(work, count, thread);
    lock.lock();
    if (--at_work_ == 0) changed_.notify_all();
  }
}

/// Threads take items in order, so that all items before a failed one are processed. The first
/// failure thus does not depend on the threads.
void SampleThreads::take_items(const Work& work, size_t count, size_t thread) {
  for (size_t item = next_item_++; item < count; item = next_item_++) {
    try {
      work(item, thread);
    } catch (...) {
      next_item_ = count;  // later items are not needed
      const std::lock_guard lock(mutex_);
      if (item >= failed_item_) continue;
      failed_item_ = item;
      error_ = std::current_exception();
    }
  }
}

}  // namespace dlflow::runtime
