#include "engine/container/container_job.h"

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

const Json kJob = Json::parse(R"({
  "image": "box", "from": "oci:/images/box", "digest": "sha256:)" +
                              std::string(64, 'd') +
                              R"(", "build": {"run": "make"}, "cache": "/cache",
  "cache_budget_bytes": 11, "runtime": "podman", "command": ["sudo", "podman"], "mode": "P2",
  "arguments": ["--rm"], "launcher": ["srun", "-n2"], "mpirun": "mpirun", "ranks": 3,
  "binds": [{"source": "/data", "target": "/d", "read_only": true},
            {"source": "/work", "target": "/w", "read_only": false}],
  "directory": "/run/work", "gpus": true, "commands": [["bash", "-c"], ["sh"]],
  "environment": {"A": "1", "B": "2"},
  "rank_plan": {"ranks": 3, "told": true, "one_per_node": false, "nodes": [["n1", 3]], "master_address": "n1",
                "master_port": 2, "asks_by": 15, "asked_by": 10, "lost_rank": "/lost",
                "given": ["X"]},
  "secrets": ["TOKEN"], "secrets_file": "/run/secrets", "log": "/run/stderr"})");

const Json kRequest = Json::parse(R"({
  "image": "box", "commands": [["bash", "-c"], ["sh"]], "directory": "/run/work",
  "environment": {"A": "1", "B": "2"}, "adds_ranks": true, "rank_plan": null, "asks_by": 15, "asked_by": 10,
  "secrets": ["TOKEN"],
  "secrets_file": "/run/secrets"})");

}  // namespace

TEST_CASE("a supervisor's job for a container is read as it was written", "[container]") {
  const ContainerJob job = container_job_from_json(kJob);
  CHECK(to_json(job) == kJob);
  CHECK(job.image == "box");
  CHECK(job.cache == "/cache");
  CHECK(job.ranks == 3);
  CHECK(job.gpus);
  CHECK(job.binds.at(0).source == "/data");
  CHECK(job.binds.at(0).read_only);
  CHECK(job.binds.at(1).target == "/w");
}

TEST_CASE("a request to a container is read as it was written", "[container]") {
  const ContainerRequest request = container_request_from_json(kRequest);
  CHECK(to_json(request) == kRequest);
  CHECK(request.adds_ranks);
  CHECK(request.directory == "/run/work");
}

TEST_CASE("a job or request that lacks a key is refused", "[container]") {
  for (const auto& [key, value] : kJob.items()) {
    Json damaged = kJob;
    damaged.erase(key);
    INFO(key);
    CHECK_THROWS_WITH(container_job_from_json(damaged),
                      Catch::StartsWith("not a container.json: "));
  }
  for (const auto& [key, value] : kRequest.items()) {
    Json damaged = kRequest;
    damaged.erase(key);
    CHECK_THROWS_WITH(container_request_from_json(damaged),
                      Catch::StartsWith("not a request.json: "));
  }
}

TEST_CASE("a container gets the variables that give a rank its place", "[container]") {
  for (const char* name : {"SLURM_PROCID", "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK",
                           "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
    CHECK(is_passed_on(name));
  }
  for (const char* name : {"HOME", "SLURM", "CUDA_VISIBLE_DEVICES_2", "TOKEN", ""}) {
    CHECK_FALSE(is_passed_on(name));
  }
}

TEST_CASE("both sides of a container use the same names", "[container]") {
  const Rendezvous place{"/run/container.x"};
  CHECK(place.request() == "/run/container.x/request.json");
  CHECK(place.control() == "/run/container.x/control");
  CHECK(place.status("3") == "/run/container.x/status.3");
}
