#include <map>
#include <vector>

#include "engine/run/start_queue.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

/// A queue, and the resources of its jobs.
struct Fixture {
  ReadyQueue queue;
  std::map<uint32_t, int> cores;

  void push(uint32_t job, int count, uint32_t lane = 0) {
    Resources resources;
    resources.cpus_per_rank = cores[job] = count;
    queue.push(job, resources, lane);
  }

  std::vector<uint32_t> drain(int free_cores) {
    std::vector<uint32_t> jobs;
    while (const auto job =
               queue.pop([&](uint32_t candidate) { return cores[candidate] <= free_cores; })) {
      jobs.push_back(*job);
    }
    return jobs;
  }
};

}  // namespace

TEST_CASE("an empty queue has nothing to start", "[ready-queue]") {
  Fixture ready;
  CHECK(ready.queue.empty());
  CHECK(ready.drain(1).empty());
}

TEST_CASE("jobs come in plan order, whatever their resources", "[ready-queue]") {
  Fixture ready;
  for (const uint32_t job : {5, 1, 3}) ready.push(job, 1);
  for (const uint32_t job : {4, 2}) ready.push(job, 2);
  CHECK(ready.drain(2) == std::vector<uint32_t>{1, 2, 3, 4, 5});
  CHECK(ready.queue.empty());
}

TEST_CASE("a job without room stays, and lets others pass", "[ready-queue]") {
  Fixture ready;
  ready.push(1, 4);
  ready.push(2, 1);
  CHECK(ready.drain(2) == std::vector<uint32_t>{2});
  CHECK_FALSE(ready.queue.empty());
  CHECK(ready.drain(4) == std::vector<uint32_t>{1});
}

TEST_CASE("a full lane lets jobs of other lanes pass", "[ready-queue]") {
  Fixture ready;
  for (const uint32_t job : {1, 2}) ready.push(job, 1, 7);
  ready.push(3, 1);
  CHECK(ready.queue.pop([](uint32_t job) { return job == 3; }) == 3u);
  CHECK(ready.drain(1) == std::vector<uint32_t>{1, 2});
}
