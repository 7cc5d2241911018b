#include "runtime/collectives/task.h"

#include "runtime/comm/communicator.h"
#include "runtime/comm/patience.h"

namespace dlflow::runtime {

Progress Task::poll() {
  promise_type& promise = coroutine_.promise();
  bool moved = false;
  while (!coroutine_.done()) {
    if (promise.wait != nullptr) {
      const Progress progress = promise.wait->poll();
      if (progress == Progress::None) return moved ? Progress::Some : Progress::None;
      if (progress == Progress::Some) return Progress::Some;
      promise.wait = nullptr;
    }
    coroutine_.resume();
    moved = true;
  }
  if (promise.error) std::rethrow_exception(promise.error);
  return Progress::Done;
}

int Task::peer() const {
  const Wait* const wait = coroutine_.promise().wait;
  return wait == nullptr ? -1 : wait->peer();
}

void run(Communicator& comm, Wait& wait) {
  Patience patience(comm);
  for (;;) {
    switch (wait.poll()) {
      case Progress::Done:
        return;
      case Progress::Some:
        patience.restart();
        break;
      case Progress::None:
        if (!patience.wait()) throw_no_answer(comm.rank(), wait.peer(), comm.timeout());
    }
  }
}

}  // namespace dlflow::runtime
