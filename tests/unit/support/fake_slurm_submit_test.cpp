#include "tests/support/catch.h"
#include "tests/support/fake_slurm_tools.h"

using namespace dlflow;
using test::FakeSlurmTools;

namespace {

const std::string kScript = "#!/bin/sh\ntrue\n";

}  // namespace

TEST_CASE("the options of a script are above its first command", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  const std::string script =
      "#!/bin/bash\n#SBATCH --job-name=\"a \\\"b\\\"\"\n#SBATCH --ntasks=2\n"
      "#SBATCH --mem=2048M\n\ntrue\n#SBATCH --time=9\n";
  CHECK(slurm.run("sbatch --parsable", script).out == "1\n");
  const Json request = slurm.jobs().at(0).at("request");
  CHECK(request.at("name") == "a \"b\"");
  CHECK(request.at("tasks") == 2);
  CHECK(request.at("memory_mb") == 2048);
  CHECK(request.at("minutes") == 0);
}

TEST_CASE("mistakes give the messages and exit status of sbatch 22.05", "[fake_slurm]") {
  struct Case {
    std::string options, input, err;
    int status;
  };
  const std::string help = "Try \"sbatch --help\" for more information\n";
  const std::string failed = "sbatch: error: Batch job submission failed: ";
  const auto [options, input, err, status] = GENERATE_COPY(
      Case{"--foo", kScript, "sbatch: unrecognized option '--foo'\n" + help, 255},
      Case{"", "#!/bin/sh\n#SBATCH --bar\n", "sbatch: unrecognized option '--bar'\n" + help, 255},
      Case{"", "#!/bin/sh\n#SBATCH --job-name=a b\n",
           "sbatch: error: Invalid directive found in batch script: b\n", 1},
      Case{"--ntasks=x", kScript, "sbatch: error: Invalid numeric value \"x\" for --ntasks.\n", 1},
      Case{"--signal=ZZ", kScript, "sbatch: error: Invalid --signal specification\n", 1},
      Case{"--partition=no", kScript, failed + "Invalid partition name specified\n", 1},
      Case{"--dependency=afterok:x", kScript, failed + "Job dependency problem\n", 1});
  const FakeSlurmTools slurm;
  const auto result = slurm.run("sbatch " + options, input);
  CHECK(result.err == err);
  CHECK(result.status == status);
  CHECK(result.out.empty());
  CHECK(slurm.jobs().empty());
}

TEST_CASE("submissions beyond a limit are refused as by SLURM", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("set max_submit=2");
  slurm.submit("--array=1-2");
  CHECK(
      slurm.run("sbatch", kScript).err ==
      "sbatch: error: QOSMaxSubmitJobPerUserLimit\n"
      "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit "
      "limit, user's size and/or time limits)\n");
}

TEST_CASE("a child runs after scontrol gave it another parent", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.submit("--dependency=afterok:1");
  slurm.submit("--dependency=afterok:2");
  slurm.control("end 1 FAILED");
  CHECK(slurm.field("2", "%T %r %E") == "PENDING DependencyNeverSatisfied afterok:1(failed)");
  CHECK(slurm.field("3", "%r") == "Dependency");

  slurm.submit();
  CHECK(slurm.run("scontrol update jobid=2 dependency=afterok:4").status == 0);
  CHECK(slurm.field("2", "%T %r %E") == "PENDING Dependency afterok:4(unfulfilled)");
  slurm.control("end 4 COMPLETED");
  slurm.control("end 2 COMPLETED");
  CHECK(slurm.field("3", "%T") == "RUNNING");
}

TEST_CASE("scontrol gives tasks of an array another parent", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("--array=1-4");
  slurm.submit("--array=1-4 --dependency=aftercorr:1");
  slurm.control("end 1_2 FAILED");
  const std::string again = slurm.submit();
  CHECK(slurm.run("scontrol update 'jobid=2_[2-3]' dependency=afterok:" + again).status == 0);
  for (const char* task : {"2_2", "2_3"}) {
    CHECK(slurm.field(task, "%r %E") == "Dependency afterok:" + again + "(unfulfilled)");
  }
  CHECK(slurm.field("2_1", "%r %E") == "Dependency aftercorr:1_*(unfulfilled)");
}

TEST_CASE("scontrol refuses impossible changes in SLURM's words", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("--time=10");
  CHECK(slurm.run("scontrol update jobid=9 dependency=").err ==
        "Invalid job id specified for job 9\n");
  CHECK(slurm.run("scontrol update jobid=1 dependency=afterok:1").err ==
        "Job dependency problem for job 1\n");
  slurm.control("advance 1");
  CHECK(slurm.run("scontrol update jobid=1 dependency=afterok:5").err ==
        "Job is no longer pending execution for job 1\n");
  slurm.submit("--dependency=afterok:1");
  CHECK(slurm.run("scontrol requeue 2").err == "Job is pending execution for job 2\n");
  slurm.submit("--no-requeue");
  slurm.control("advance 1");
  CHECK(slurm.run("scontrol requeue 3").err ==
        "Requested operation is presently disabled for job 3\n");
  CHECK(slurm.run("scontrol update jobid=1 TimeLimit=20").err ==
        "Access/permission denied for job 1\n");
  CHECK(slurm.run("scontrol update jobid=1 TimeLimit=5").status == 0);
  CHECK(slurm.field("1", "%l") == "5:00");
  CHECK(slurm.run("scontrol frobnicate").err == "invalid keyword: frobnicate\n");
}

TEST_CASE("scancel takes jobs and tasks", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("--array=1-4");
  slurm.control("advance 1");
  CHECK(slurm.run("scancel 1_2 '1_[3-4]'").status == 0);
  CHECK(slurm.field("1_2", "%T") == "CANCELLED");
  CHECK(slurm.field("1_4", "%T") == "CANCELLED");
  CHECK(slurm.field("1_1", "%T") == "RUNNING");
  slurm.run("scancel 1");
  CHECK(slurm.run("squeue --format=%i").out.empty());
  CHECK(slurm.run("scancel 99").status == 0);  // without a lookup
  CHECK(slurm.run("scancel --batch --signal=INT --state=RUNNING --jobname=a 99").err ==
        "scancel: error: Kill job error on job id 99: Invalid job id specified\n");
  CHECK(slurm.run("scancel").err == "scancel: error: No job identification provided\n");
}
