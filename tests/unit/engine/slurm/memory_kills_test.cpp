#include "engine/slurm/allocation.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

TEST_CASE("kills by the kernel in any step of a job are counted", "[slurm]") {
  const test::TempDir root;
  SECTION("with one hierarchy") {
    root.write("system.slice/slurmstepd.scope/job_812/memory.events",
               "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 0\n");
    root.write("system.slice/slurmstepd.scope/job_812/step_batch/memory.events", "oom_kill 0\n");
    CHECK(job_memory_kills(root.path(),
                           "none\n0\n7:x\n"
                           "0::/system.slice/slurmstepd.scope/job_812/step_batch/user/task_0\n") ==
          2u);
    CHECK(job_memory_kills(root.path(), "0::/system.slice/slurmstepd.scope/job_813/step_0\n") ==
          std::nullopt);
  }
  SECTION("with a separate hierarchy for memory") {
    const std::string job = "memory/slurm/uid_1000/job_812/";
    root.write(job + "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    root.write(job + "step_batch/memory.oom_control", "oom_kill_disable 0\noom_kill 1\n");
    root.write(job + "step_0/task_1/memory.oom_control", "oom_kill_disable 0\noom_kill 3\n");
    const std::string own =
        "11:cpuset:/slurm/uid_1000/job_812/step_batch\n"
        "7:hugetlb,memory:/slurm/uid_1000/job_812/step_batch\n0::/user.slice\n";
    CHECK(job_memory_kills(root.path(), own) == 4u);
  }
}

TEST_CASE("kills by the kernel are unknown outside of a job", "[slurm]") {
  const test::TempDir root;
  root.write("user.slice/memory.events", "oom_kill 7\n");
  CHECK(job_memory_kills(root.path(), "0::/user.slice\n") == std::nullopt);
  CHECK(job_memory_kills(root.path(), "") == std::nullopt);
  root.write("slurm/job_812/memory.events", "oom_kill 7\n");
  root.write("slurm/job_812:/memory.events", "oom_kill 7\n");
  for (const char* no_line_of_the_kernel :
       {"/slurm/job_812\n", "slurm/job_812:\n", "0:/slurm/job_812/step_0\n"}) {
    CHECK(job_memory_kills(root.path(), no_line_of_the_kernel) == std::nullopt);
  }
}
