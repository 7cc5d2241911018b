#include "engine/batch/submissions.h"

#include <thread>
#include <utility>

#include "base/error.h"

namespace dlflow {

void Submissions::begin(SubmitCall call) {
  DLFLOW_CHECK(!is_full());
  std::this_thread::sleep_until(next_);
  next_ = std::chrono::steady_clock::now() + interval_;
  const bool alone = system_.submissions_at_once() == 1;
  const auto policy = alone ? std::launch::deferred : std::launch::async;
  calls_.push_back(std::async(policy, std::move(call.submit)));
}

SubmitAnswer Submissions::finish_first() {
  DLFLOW_CHECK(!empty());
  std::future<SubmitAnswer> call = std::move(calls_.front());
  calls_.pop_front();
  return call.get();
}

}  // namespace dlflow
