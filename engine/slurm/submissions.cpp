#include "engine/slurm/submissions.h"

#include <thread>
#include <utility>

#include "base/error.h"

namespace dlflow {

void Submissions::begin(std::string script) {
  DLFLOW_CHECK(!is_full());
  std::this_thread::sleep_until(next_);
  next_ = std::chrono::steady_clock::now() + interval_;
  calls_.push_back(std::async(
      std::launch::async, [this, script = std::move(script)] { return tools_.submit(script); }));
}

SbatchAnswer Submissions::finish_first() {
  DLFLOW_CHECK(!empty());
  std::future<SbatchAnswer> call = std::move(calls_.front());
  calls_.pop_front();
  return call.get();
}

}  // namespace dlflow
