#include "engine/slurm/allocation.h"

#include <stdlib.h>

#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/tool_scripts.h"

// A job asks SLURM about itself: with the tools of a folder that is first in PATH.

using namespace dlflow;

namespace {

class Node : public test::ToolScripts {
 public:
  /// Returns the exit status of a process of job `id` that does `act`; 99 if it throws.
  template <typename Act>
  int in_job(const Act& act, const char* id = "813") const {
    return test::in_child([&] {
      ::setenv("PATH", (folder_.path().string() + ":/usr/bin:/bin").c_str(), 1);
      for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"}) {
        ::unsetenv(name);
      }
      if (id != nullptr) ::setenv("SLURM_JOB_ID", id, 1);
      return act();
    });
  }
};

int is_at_work(const std::string& id) {
  return slurm_allocation()->is_at_work({id, "a.", ""}) ? 1 : 0;
}

}  // namespace

TEST_CASE("another job is at work as long as the queue does not show its end", "[job-exec]") {
  const Node node;
  const auto queue = [&](const std::string& state) {
    node.tool("squeue", "echo '812|" + state + "|0:05|20:00|N/A|N/A|n1|(null)|None|N/A|a.1'");
  };
  for (const char* state : {"RUNNING", "PENDING", "COMPLETING"}) {
    queue(state);
    CHECK(node.in_job([] { return is_at_work("812"); }) == 1);
    CHECK(node.in_job([] { return is_at_work("811"); }) == 0);
  }
  for (const char* state : {"COMPLETED", "NODE_FAIL", "CANCELLED"}) {
    queue(state);
    CHECK(node.in_job([] { return is_at_work("812"); }) == 0);
  }
  node.tool("squeue", "echo 'squeue: error: no' >&2; exit 1");
  CHECK(node.in_job([] { return is_at_work("811"); }) == 1);
}

TEST_CASE("a job allows its own requeue before it requests one", "[job-exec]") {
  const Node node;
  const auto requeue = [] {
    slurm_allocation()->requeue("813");
    return 0;
  };
  node.tool("scontrol", "exit 0");
  CHECK(node.in_job(requeue) == 0);
  CHECK(node.calls() ==
        std::vector<std::string>{"scontrol update jobid=813 Requeue=1", "scontrol requeue 813"});
  node.tool("scontrol", "echo 'scontrol: error: Access denied' >&2; exit 1");
  CHECK(node.in_job(requeue) == 99);
}

TEST_CASE("a job that cannot get more memory goes on with its own", "[job-exec]") {
  const Node node;
  const auto raise = [] {
    slurm_allocation()->raise_memory("813", (uint64_t{3} << 20) + 1);
    return 0;
  };
  node.tool("scontrol", "exit 1");
  CHECK(node.in_job(raise) == 0);
  CHECK(node.calls() == std::vector<std::string>{"scontrol update jobid=813 MinMemoryNode=4"});
}

TEST_CASE("a job knows its id, its memory, and the id of its task in an array", "[job-exec]") {
  const Node node;
  CHECK(node.in_job([] { return slurm_allocation()->id == "813" ? 0 : 1; }) == 0);
  CHECK(node.in_job([] {
    ::setenv("SLURM_ARRAY_JOB_ID", "812", 1);
    ::setenv("SLURM_ARRAY_TASK_ID", "4", 1);
    return slurm_allocation()->id == "812_4" ? 0 : 1;
  }) == 0);
  CHECK(node.in_job([] {
    ::setenv("SLURM_MEM_PER_NODE", "3", 1);
    return slurm_allocation()->memory_bytes == uint64_t{3} << 20 ? 0 : 1;
  }) == 0);
  CHECK(node.in_job([] {
    ::unsetenv("SLURM_MEM_PER_NODE");
    return slurm_allocation()->memory_bytes == 0 ? 0 : 1;
  }) == 0);
}

TEST_CASE("no job exists outside of SLURM", "[job-exec]") {
  const Node node;
  CHECK(node.in_job([] { return slurm_allocation() ? 1 : 0; }, nullptr) == 0);
}
