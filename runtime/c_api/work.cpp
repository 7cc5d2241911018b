#include "runtime/c_api/work.h"

#include <utility>

#include "runtime/c_api/group.h"

namespace dlflow::runtime {

void DoneQueue::push(uint64_t id) {
  const std::lock_guard lock(mutex_);
  ids_.push_back(id);
  changed_.notify_one();
}

std::optional<uint64_t> DoneQueue::pop(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [this] { return !ids_.empty(); })) return std::nullopt;
  const uint64_t id = ids_.front();
  ids_.pop_front();
  return id;
}

void Work::end(std::optional<Failure> failure) {
  const std::lock_guard lock(mutex_);
  if (done_) return;
  failure_ = std::move(failure);
  group_ = nullptr;
  done_.store(true, std::memory_order_release);
  changed_.notify_all();
  if (queue_) queue_->push(id_);
}

Group* Work::expecting_group() const {
  const std::lock_guard lock(mutex_);
  if (group_) group_->expect_waiter();
  return group_;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return is_done(); };
  if (timeout.count() >= 0) return changed_.wait_for(lock, timeout, is_over);
  changed_.wait(lock, is_over);
  return true;
}

std::optional<Work::Failure> Work::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Work::notify(std::shared_ptr<DoneQueue> queue, uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (done_) return queue->push(id);
  queue_ = std::move(queue);
  id_ = id;
}

}  // namespace dlflow::runtime
