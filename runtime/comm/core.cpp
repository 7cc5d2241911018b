#include "runtime/comm/core.h"

#include <sched.h>
#include <sys/prctl.h>

#include <ctime>
#include <thread>

namespace dlflow::runtime {
namespace {

class ThisCore final : public Core {
 public:
  Time now() override { return std::chrono::steady_clock::now(); }

  Duration used() override {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + Duration(used.tv_nsec);
  }

  void yield() override { ::sched_yield(); }

  void sleep(Duration duration) override {
    if (!precise_) ::prctl(PR_SET_TIMERSLACK, 1000UL);  // otherwise the kernel adds 50 us
    precise_ = true;
    std::this_thread::sleep_for(duration);
  }

 private:
  bool precise_ = false;
};

}  // namespace

Core& this_core() {
  thread_local ThisCore core;
  return core;
}

}  // namespace dlflow::runtime
