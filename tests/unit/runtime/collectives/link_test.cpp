#include "runtime/collectives/link.h"

#include <algorithm>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow::runtime;

namespace {

std::vector<std::byte> number(int value) { return {std::byte(value)}; }

}  // namespace

TEST_CASE("ranks of a link are numbered within it, in a ring", "[collectives]") {
  ThreadGroup group(6);
  const Link all(group.communicator(4));
  CHECK(all.size() == 6);
  CHECK(all.rank() == 4);
  const Link some(group.communicator(4), {5, 0, 4}, group.communicator(4).open_channel());
  CHECK(some.size() == 3);
  CHECK(some.rank() == 2);
  CHECK(some.neighbour(1) == 0);
  CHECK(some.neighbour(-1) == 1);
  CHECK(some.neighbour(-3) == 2);
  CHECK(some.neighbour(-7) == 1);
  CHECK(some.neighbour(7) == 0);
}

TEST_CASE("a wait for several messages names the first that is missing", "[collectives]") {
  ThreadGroup group(3);
  Link first(group.communicator(0)), second(group.communicator(1)), third(group.communicator(2));
  std::vector<std::byte> of_second(1), of_third(1);
  Messages both = first.messages();
  CHECK(both.peer() == -1);
  first.receive(both, of_second, 1);
  first.receive(both, of_third, 2);
  CHECK(both.poll() == Progress::None);
  CHECK(both.peer() == 1);
  Messages sent = second.send(number(7), 0);
  CHECK(sent.poll() == Progress::Done);
  CHECK(both.poll() == Progress::Some);
  CHECK(both.poll() == Progress::None);
  CHECK(both.peer() == 2);
  Messages sent_too = third.send(number(8), 0);
  CHECK(sent_too.poll() == Progress::Done);
  CHECK(both.poll() == Progress::Done);
  CHECK(both.peer() == -1);
  CHECK(of_second == number(7));
  CHECK(of_third == number(8));
}
