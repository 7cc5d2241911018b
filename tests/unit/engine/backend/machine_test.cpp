#include "engine/backend/machine.h"

#include <sched.h>
#include <stdlib.h>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;

namespace {

Plan plan_of(const Resources& resources) {
  Plan plan;
  plan.workflow.file = "w.yaml";
  Step step;
  step.name = "train";
  step.locations["resources"] = {7, 5};
  plan.workflow.steps.push_back(step);
  PlannedJob job;
  job.name = "train";
  job.resources = std::make_shared<const Resources>(resources);
  plan.jobs.push_back(job);
  return plan;
}

const Machine kSmall = {.cores = 4, .memory_bytes = uint64_t{8} << 30, .gpus = {"0"}};

}  // namespace

TEST_CASE("resources of a profile override those of the machine", "[machine]") {
  Profile profile;
  profile.cores = 3;
  profile.memory_bytes = 1000;
  profile.gpus = 2;
  CHECK(local_machine(profile) == Machine{3, 1000, {"0", "1"}});
}

TEST_CASE("without a profile, only resources that this process may use count", "[machine]") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  const Machine machine = local_machine({});
  ::sched_setaffinity(0, sizeof before, &before);
  CHECK(machine.cores == 1);
  CHECK(machine.memory_bytes >= uint64_t{1} << 24);  // in bytes, not in pages
}

TEST_CASE("CUDA_VISIBLE_DEVICES ends before the first entry that is not a GPU, as in CUDA",
          "[machine]") {
  const auto gpus = [](const char* visible) {
    const test::Variable variable("CUDA_VISIBLE_DEVICES", visible);
    return local_machine({}).gpus;
  };
  using Names = std::vector<std::string>;
  CHECK(gpus("-1") == Names{});
  CHECK(gpus("NoDevFiles") == Names{});
  CHECK(gpus("0,-1,1") == Names{"0"});
  CHECK(gpus("MIG-12ab,3") == Names{"MIG-12ab", "3"});
}

TEST_CASE("GPUs have the names that CUDA_VISIBLE_DEVICES gives them", "[machine]") {
  const test::Variable visible("CUDA_VISIBLE_DEVICES", "2, GPU-5ab");
  CHECK(local_machine({}).gpus == std::vector<std::string>{"2", "GPU-5ab"});
  visible.set("");
  CHECK(local_machine({}).gpus.empty());
}

TEST_CASE("GPUs of a container may have numbers with gaps", "[machine]") {
  const test::TempDir devices;
  for (const char* name : {"nvidia4", "nvidia5", "nvidia", "nvidiactl", "nvidia-uvm", "nvme0"}) {
    devices.write(name, "");
  }
  CHECK(gpus_in(devices.path()) == 2);
  CHECK(gpus_in(devices.path() / "none") == 0);
}

TEST_CASE("ranks may share cores, but one process may not ask for more than exist", "[machine]") {
  Resources many_ranks;
  many_ranks.ranks = 16;
  CHECK(cores_taken(many_ranks, kSmall) == 4);
  CHECK_NOTHROW(check_fits(plan_of(many_ranks), kSmall));

  Resources all_there_is;
  all_there_is.cpus_per_rank = 4;
  all_there_is.memory_bytes = kSmall.memory_bytes;
  all_there_is.gpus_per_rank = 1;
  CHECK_NOTHROW(check_fits(plan_of(all_there_is), kSmall));

  Resources many_cores;
  many_cores.cpus_per_rank = 5;
  CHECK_THROWS_WITH(check_fits(plan_of(many_cores), kSmall),
                    Catch::StartsWith("w.yaml:7:5: error: step 'train' asks for 5 cores") &&
                        Catch::Contains("has 4 cores"));
  many_cores.cpus_per_rank = 4;
  CHECK_NOTHROW(check_fits(plan_of(many_cores), kSmall));
}

TEST_CASE("missing memory and GPUs are refused", "[machine]") {
  Resources memory;
  memory.memory_bytes = uint64_t{9} << 30;
  CHECK_THROWS_WITH(check_fits(plan_of(memory), kSmall), Catch::Contains("9.0 GiB of memory"));
  Resources gpus;
  gpus.ranks = 2;
  gpus.gpus_per_rank = 1;
  CHECK_THROWS_WITH(check_fits(plan_of(gpus), kSmall),
                    Catch::Contains("asks for 2 GPUs") && Catch::Contains("has 1 GPU"));
}
