#include "base/cores.h"

#include <sched.h>

#include <thread>

#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("a thread that is bound to one core counts one core, an unbound one all", "[cores]") {
  const int before = usable_cores();
  CHECK(before >= 1);
  bool bound = false;
  int cores = 0;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    bound = ::sched_setaffinity(0, sizeof one, &one) == 0;
    cores = usable_cores();
  }).join();
  REQUIRE(bound);
  CHECK(cores == 1);
  CHECK(usable_cores() == before);
}
