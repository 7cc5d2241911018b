#include "engine/backend/room.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

using Gpus = std::vector<std::string>;

Resources asks(int ranks, int gpus_per_rank, uint64_t memory_bytes) {
  Resources resources;
  resources.ranks = ranks;
  resources.gpus_per_rank = gpus_per_rank;
  resources.memory_bytes = memory_bytes;
  return resources;
}

/// A GPU that no other test has.
std::string gpu(int number) {
  return "room-test-" + std::to_string(::getpid()) + "-" + std::to_string(number);
}

}  // namespace

TEST_CASE("resources of one job are not free for the next until it returns them", "[room]") {
  Room room({.cores = 4, .memory_bytes = 8 * kGiB, .gpus = {gpu(0), gpu(1), gpu(2)}});
  const Resources large = asks(2, 1, 6 * kGiB);
  CHECK(room.fits(large));
  const Gpus gpus = room.take(large);
  CHECK(gpus == Gpus{gpu(1), gpu(2)});
  CHECK_FALSE(room.fits(large));          // memory
  CHECK_FALSE(room.fits(asks(1, 2, 0)));  // GPUs
  CHECK_FALSE(room.fits(asks(3, 0, 0)));  // cores
  CHECK(room.fits(asks(2, 0, 2 * kGiB)));
  CHECK_FALSE(room.fits(asks(1, 0, 3 * kGiB)));  // memory alone
  CHECK(room.take(asks(1, 1, 0)) == Gpus{gpu(0)});
  room.give_back(large, gpus);
  CHECK(room.fits(large));
}

TEST_CASE("a running job keeps its place even if there is no room", "[room]") {
  Room room({.cores = 1, .memory_bytes = kGiB, .gpus = {gpu(0)}});
  const Resources one = asks(1, 1, kGiB);
  CHECK(room.take(one) == Gpus{gpu(0)});
  CHECK(room.take(one, {gpu(0), gpu(7)}).empty());  // taken; not of this machine
  room.give_back(one, {});
  CHECK_FALSE(room.fits(asks(1, 0, 0)));
  room.give_back(one, {gpu(0)});
  CHECK(room.fits(one));
}

TEST_CASE("two runs never have the same GPU", "[room]") {
  const Machine machine = {.cores = 4, .memory_bytes = kGiB, .gpus = {gpu(0), gpu(1)}};
  Room here(machine);
  Room there(machine);
  const Resources one = asks(1, 1, 0);
  const Resources two = asks(2, 1, 0);
  REQUIRE(here.fits(one));
  CHECK(here.take(one) == Gpus{gpu(1)});
  CHECK_FALSE(there.fits(two));
  REQUIRE(there.fits(one));
  CHECK(there.take(one) == Gpus{gpu(0)});
  CHECK_FALSE(here.fits(one));
  here.give_back(one, {gpu(1)});
  CHECK(there.fits(one));
}

TEST_CASE("GPUs reserved for a job that does not start are free for others", "[room]") {
  const Machine machine = {.cores = 4, .memory_bytes = kGiB, .gpus = {gpu(0), gpu(1)}};
  Room here(machine);
  Room there(machine);
  REQUIRE(here.fits(asks(2, 1, 0)));
  CHECK_FALSE(there.fits(asks(1, 1, 0)));
  CHECK(here.take(asks(1, 1, 0)).size() == 1);
  CHECK(there.fits(asks(1, 1, 0)));
}

TEST_CASE("a GPU is held while any process has a copy of its lock", "[room]") {
  const Machine machine = {.cores = 4, .memory_bytes = kGiB, .gpus = {gpu(0)}};
  const Resources one = asks(1, 1, 0);
  Room there(machine);
  FileDescriptor of_supervisor;
  {
    Room here(machine);
    REQUIRE(here.fits(one));
    const std::vector<int> held = here.descriptors_of(here.take(one));
    REQUIRE(held.size() == 1);
    of_supervisor.reset(::fcntl(held[0], F_DUPFD_CLOEXEC, 0));
  }
  CHECK_FALSE(there.fits(one));  // the engine was killed, its job goes on
  of_supervisor.reset();
  CHECK(there.fits(one));
}

TEST_CASE("an exclusive job runs alone", "[room]") {
  Room room({.cores = 4, .memory_bytes = 8 * kGiB, .gpus = {}});
  Resources alone = asks(1, 0, 0);
  alone.exclusive = true;
  const Gpus none = room.take(alone);
  CHECK_FALSE(room.fits(asks(1, 0, 0)));
  room.give_back(alone, none);
  CHECK(room.fits(alone));
  room.take(asks(1, 0, 0));
  CHECK_FALSE(room.fits(alone));
}
