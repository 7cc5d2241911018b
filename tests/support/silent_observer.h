#pragma once

#include "engine/report/observer.h"

namespace dlflow::test {

/// Ignores all events.
class SilentObserver : public Observer {
 public:
  void began(const Plan&, const RunStatus&) override {}
  void extended(const Plan&, const RunStatus&) override {}
  void event(const JobEvent&) override {}
  void tick(Time) override {}
  void stopping() override {}
  void ended(RunState, Time) override {}
};

}  // namespace dlflow::test
