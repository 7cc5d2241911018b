#include "engine/backend/room.h"

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

Resources asks(int ranks, int gpus_per_rank, uint64_t memory_bytes) {
  Resources resources;
  resources.ranks = ranks;
  resources.gpus_per_rank = gpus_per_rank;
  resources.memory_bytes = memory_bytes;
  return resources;
}

}  // namespace

TEST_CASE("what one job takes is not there for the next until it comes back", "[room]") {
  Room room({.cores = 4, .memory_bytes = 8 * kGiB, .gpus = {"0", "1", "2"}});
  const Resources large = asks(2, 1, 6 * kGiB);
  CHECK(room.fits(large));
  const std::vector<std::string> gpus = room.take(large);
  CHECK(gpus == std::vector<std::string>{"1", "2"});
  CHECK_FALSE(room.fits(large));          // memory
  CHECK_FALSE(room.fits(asks(1, 2, 0)));  // GPUs
  CHECK_FALSE(room.fits(asks(3, 0, 0)));  // cores
  CHECK(room.fits(asks(2, 0, 2 * kGiB)));
  CHECK(room.take(asks(1, 1, 0)) == std::vector<std::string>{"0"});
  room.give_back(large, gpus);
  CHECK(room.fits(large));
}

TEST_CASE("a job that runs already has its place even where there is none", "[room]") {
  Room room({.cores = 1, .memory_bytes = kGiB, .gpus = {"0"}});
  const Resources one = asks(1, 1, kGiB);
  CHECK(room.take(one) == std::vector<std::string>{"0"});
  CHECK(room.take(one, {"0", "7"}).empty());  // taken; not of this machine
  room.give_back(one, {});
  CHECK_FALSE(room.fits(asks(1, 0, 0)));
  room.give_back(one, {"0"});
  CHECK(room.fits(one));
}
