#include "steps/transfer/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {
namespace {

constexpr size_t kMaxErrors = 10;

/// The errors of all threads.
class Failures {
 public:
  /// Calls `work`; returns whether further calls may begin.
  bool run(size_t i, const std::function<void(size_t)>& work) {
    try {
      work(i);
    } catch (const Error& error) {
      const std::scoped_lock lock(mutex_);
      errors_.emplace(i, error);
    } catch (...) {  // Stopped, or a bug
      const std::scoped_lock lock(mutex_);
      end_ = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    return end_ == nullptr;
  }

  void rethrow(size_t count) const {
    if (end_) std::rethrow_exception(end_);
    if (errors_.empty()) return;
    const Error& first = errors_.begin()->second;
    if (errors_.size() == 1) throw first;
    std::string text;
    size_t listed = 0;
    for (const auto& [i, error] : errors_) {
      if (++listed > kMaxErrors) break;
      text += std::string(error.what()) + "\n";
    }
    throw Error(first.code(),
                text + format_count(errors_.size()) + " of " + format_count(count) + " failed");
  }

 private:
  std::mutex mutex_;
  std::map<size_t, Error> errors_;  // ordered by item, not by time
  std::exception_ptr end_;
};

}  // namespace

void for_each_parallel(size_t count, size_t num_threads, const std::function<void(size_t)>& work) {
  Failures failures;
  std::atomic<size_t> next{0};
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) {
      if (!failures.run(i, work)) return;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < std::min(num_threads, count); ++i) threads.emplace_back(take);
    take();
  }
  failures.rethrow(count);
}

}  // namespace dlflow::steps
