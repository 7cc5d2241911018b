#pragma once

#include <signal.h>

#include "base/handle.h"

namespace dlflow {

/// Counts SIGINT and SIGTERM, as long as it exists; they do not end this process then. In a
/// process with several threads it must be made before the others start.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();

  /// Becomes readable when a signal has come.
  int descriptor() const { return file_.get(); }

  /// The number of signals since the last call.
  int take();

 private:
  sigset_t before_{};
  FileDescriptor file_;
};

}  // namespace dlflow
