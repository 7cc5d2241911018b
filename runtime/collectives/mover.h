#pragma once

#include <functional>
#include <thread>

namespace dlflow::runtime {

/// Has messages moved while their rank computes. They move inside the rank's calls alone, and a
/// layer may compute for longer than what a socket holds takes to travel. A thread that sleeps
/// nearly always: it looks every millisecond while there is something to move, which takes about a
/// hundredth of the rank's core.
class Mover {
 public:
  /// `move` moves what it can without waiting and returns whether there was anything to move. It
  /// must not throw, and is called until this object ends.
  explicit Mover(std::function<bool()> move);

 private:
  std::jthread thread_;
};

}  // namespace dlflow::runtime
