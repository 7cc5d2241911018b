#include "engine/run/interrupts.h"

#include <signal.h>

#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("a stop at the end of a run is for the run, and ends no later program", "[interrupts]") {
  {
    Interrupts interrupts;
    ::raise(SIGINT);
    CHECK(interrupts.take() == 1);
    CHECK(interrupts.take() == 0);
    ::raise(SIGTERM);
  }
  SUCCEED("this process has gone on");
}
