#include "tests/support/catch.h"
#include "tests/support/fake_slurm_tools.h"

using namespace dlflow;
using test::FakeSlurmTools;

namespace {

const std::string kScript = "#!/bin/sh\n";
const std::string kTimeout =
    "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n";

/// Checks that the first answer of squeue has no job, and that the next one has.
void check_empty_once(const FakeSlurmTools& slurm) {
  CHECK(slurm.run("squeue --format=%i").out.empty());
  CHECK(slurm.run("squeue --format=%i").out == "1\n");
}

}  // namespace

TEST_CASE("a submission can be refused, or accepted without an answer", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("fault sbatch before timeout");
  const auto refused = slurm.run("sbatch --parsable", kScript);
  CHECK(refused.status == 1);
  CHECK(refused.err == kTimeout);
  CHECK(slurm.jobs().empty());

  slurm.control("fault sbatch after timeout 2");
  for (int i = 0; i < 2; ++i) {
    const auto lost = slurm.run("sbatch --parsable", kScript);
    CHECK(lost.status == 1);
    CHECK(lost.err == kTimeout);
    CHECK(lost.out.empty());
  }
  CHECK(slurm.jobs().size() == 2);
  CHECK(slurm.run("sbatch --parsable", kScript).out == "3\n");
}

TEST_CASE("a submission can arrive after further calls", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("fault sbatch late:2 timeout");
  CHECK(slurm.run("sbatch", kScript).err == kTimeout);
  check_empty_once(slurm);
}

TEST_CASE("an answer can be empty", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.control("fault squeue output empty");
  check_empty_once(slurm);
}

TEST_CASE("each command reports an absent controller in SLURM's words", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.control("fault all before connect always");
  const std::string connect = "Unable to contact slurm controller (connect failure)";
  CHECK(slurm.run("sbatch", kScript).err ==
        "sbatch: error: Batch job submission failed: " + connect + "\n");
  CHECK(slurm.run("squeue").err == "slurm_load_jobs error: " + connect + "\n");
  CHECK(slurm.run("scontrol show job 1").err == "slurm_load_jobs error: " + connect + "\n");
  CHECK(slurm.run("scontrol update jobid=1 dependency=").err == connect + " for job 1\n");
  CHECK(slurm.run("scancel 1").err ==
        "scancel: error: Kill job error on job id 1: " + connect + "\n");
  CHECK(slurm.run("sinfo").err == "slurm_load_partitions: " + connect + "\n");
  CHECK(slurm.run("sacct").err ==
        "sacct: error: Problem talking to the database: Connection refused\n");
  slurm.control("fault clear");
  slurm.control("fault scontrol before 'Access/permission denied'");
  CHECK(slurm.run("scontrol update jobid=1 dependency=").err ==
        "Access/permission denied for job 1\n");
}

TEST_CASE("every call is recorded", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("'--job-name=a b'");
  slurm.control("fault squeue before connect");
  slurm.run("squeue --me");
  CHECK(slurm.calls("sbatch") == std::vector<std::vector<std::string>>{{"--job-name=a b"}});
  CHECK(slurm.calls("squeue") == std::vector<std::vector<std::string>>{{"--me"}});
  CHECK(slurm.calls("fake-slurm").empty());
}
