#include "tests/support/catch.h"
#include "tests/support/fake_slurm_tools.h"

using namespace dlflow;
using test::FakeSlurmTools;

namespace {

const std::string kScript = "#!/bin/sh\n";
const std::string kTimeout =
    "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n";

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

TEST_CASE("a submission can arrive late, by the clock or by calls", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("fault sbatch late:30 timeout");
  CHECK(slurm.run("sbatch -J a", kScript).err == kTimeout);
  slurm.control("advance 29");
  CHECK(slurm.run("squeue -h -n a").out.empty());
  slurm.control("advance 1");
  CHECK(slurm.field("1", "%j %T") == "a RUNNING");

  slurm.control("fault sbatch late:2calls timeout");
  CHECK(slurm.run("sbatch -J b", kScript).status == 1);
  CHECK(slurm.run("squeue -h -n b -o %i").out.empty());
  CHECK(slurm.run("squeue -h -n b -o %i").out == "2\n");
}

TEST_CASE("a command can be killed before or after its effect, or hang", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("fault sbatch before kill");
  CHECK(slurm.run("sbatch", kScript).status == 137);
  CHECK(slurm.jobs().empty());
  slurm.control("fault sbatch after kill");
  CHECK(slurm.run("sbatch", kScript).status == 137);
  CHECK(slurm.jobs().size() == 1);
  slurm.control("fault sbatch after hang");
  CHECK(slurm.run("timeout 0.2 sbatch", kScript).status == 124);
  CHECK(slurm.jobs().size() == 2);
}

TEST_CASE("sites print banners around the answer", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("fault sbatch output banner");
  slurm.control("fault sbatch output banner-after");
  slurm.control("fault sbatch output banner-stderr");
  const auto before = slurm.run("sbatch --parsable", kScript).out;
  CHECK(before.starts_with("**"));
  CHECK(before.ends_with("\n1\n"));
  CHECK(slurm.run("sbatch --parsable", kScript).out.starts_with("2\n**"));
  const auto on_stderr = slurm.run("sbatch --parsable", kScript);
  CHECK(on_stderr.out == "3\n");
  CHECK(on_stderr.err.starts_with("**"));
}

TEST_CASE("answers can be empty or torn", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-a 1-3");
  slurm.control("fault squeue output empty");
  slurm.control("fault squeue output truncated");
  CHECK(slurm.run("squeue -h -r -o '%i %T'").out.empty());
  CHECK(slurm.run("squeue -h -r -o '%i %T'").out == "1_1 PENDING\n1_2 PE");
  CHECK(slurm.run("squeue -h -r -o '%i %T'").out == "1_1 PENDING\n1_2 PENDING\n1_3 PENDING\n");
}

TEST_CASE("when the controller is down each command says so in its words", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.control("down 60");
  const std::string connect = "Unable to contact slurm controller (connect failure)";
  CHECK(slurm.run("sbatch", kScript).err ==
        "sbatch: error: Batch job submission failed: " + connect + "\n");
  CHECK(slurm.run("squeue").err == "slurm_load_jobs error: " + connect + "\n");
  CHECK(slurm.run("scontrol show job 1").err == "slurm_load_jobs error: " + connect + "\n");
  CHECK(slurm.run("scontrol update jobid=1 dependency=").err == connect + " for job 1\n");
  CHECK(slurm.run("scancel 1").err ==
        "scancel: error: Kill job error on job id 1: " + connect + "\n");
  CHECK(slurm.run("sinfo").err == "slurm_load_partitions: " + connect + "\n");
  CHECK(slurm.run("scontrol ping").out == "Slurmctld(primary) at alpha-ctl is DOWN\n");
  CHECK(slurm.run("sacct -X -n -P -j 1 -o state").out == "PENDING\n");  // that asks slurmdbd
  slurm.control("advance 60");
  CHECK(slurm.field("1", "%T") == "RUNNING");
}

TEST_CASE("slurmdbd can be away, and a refusal can have any words", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.control("fault sacct before connect");
  const auto result = slurm.run("sacct -j 1");
  CHECK(result.status == 1);
  CHECK(
      result.err.ends_with("sacct: error: Problem talking to the database: Connection refused\n"));
  slurm.control("fault scontrol before 'Access/permission denied'");
  CHECK(slurm.run("scontrol update jobid=1 dependency=").err ==
        "Access/permission denied for job 1\n");
}

TEST_CASE("every call is on record", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-J 'a b'");
  slurm.control("fault squeue before connect");
  slurm.run("squeue -h");
  CHECK(slurm.calls("sbatch") ==
        std::vector<std::vector<std::string>>{{"--parsable", "-J", "a b"}});
  CHECK(slurm.calls("squeue") == std::vector<std::vector<std::string>>{{"-h"}});
  CHECK(slurm.calls("fake-slurm").empty());
}
