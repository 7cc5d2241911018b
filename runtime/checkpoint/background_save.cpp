#include "runtime/checkpoint/background_save.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Lowers the calling thread's priority to a quarter of a core that is busy with computation. Not
/// less: the next checkpoint waits for this one, which would take long on a crowded machine.
void step_back() { ::setpriority(PRIO_PROCESS, id_t(::gettid()), 5); }

}  // namespace

void BackgroundSave::start(std::function<std::filesystem::path()> write) {
  DLFLOW_CHECK(!pending());
  under_way_ = std::async(std::launch::async, [write = std::move(write), steps_back = steps_back_] {
    if (steps_back) step_back();
    return write();
  });
}

void BackgroundSave::run(const std::function<std::filesystem::path()>& write) {
  DLFLOW_CHECK(!pending());
  last_ = write();
}

void BackgroundSave::look() {
  if (pending() && under_way_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    finish();
  }
}

void BackgroundSave::finish() {
  if (pending()) last_ = under_way_.get();
}

}  // namespace dlflow::runtime
