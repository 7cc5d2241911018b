#include "engine/run/ready_queue.h"

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

Resources cores(int count) {
  Resources resources;
  resources.cpus_per_rank = count;
  return resources;
}

std::vector<uint32_t> drain(ReadyQueue& queue, int free_cores) {
  std::vector<uint32_t> jobs;
  while (const auto job = queue.pop(
             [free_cores](const Resources& r) { return r.cpus_per_rank <= free_cores; })) {
    jobs.push_back(*job);
  }
  return jobs;
}

}  // namespace

TEST_CASE("an empty queue has nothing to start", "[ready-queue]") {
  ReadyQueue queue;
  CHECK(queue.empty());
  CHECK(drain(queue, 1).empty());
}

TEST_CASE("jobs come in plan order, whatever they ask for", "[ready-queue]") {
  ReadyQueue queue;
  for (const uint32_t job : {5, 1, 3}) queue.push(job, cores(1));
  for (const uint32_t job : {4, 2}) queue.push(job, cores(2));
  CHECK(drain(queue, 2) == std::vector<uint32_t>{1, 2, 3, 4, 5});
  CHECK(queue.empty());
}

TEST_CASE("what finds no room stays, and lets others pass", "[ready-queue]") {
  ReadyQueue queue;
  queue.push(1, cores(4));
  queue.push(2, cores(1));
  CHECK(drain(queue, 2) == std::vector<uint32_t>{2});
  CHECK_FALSE(queue.empty());
  CHECK(drain(queue, 4) == std::vector<uint32_t>{1});
}
