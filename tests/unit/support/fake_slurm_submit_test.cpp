#include "tests/support/catch.h"
#include "tests/support/fake_slurm_tools.h"

using namespace dlflow;
using test::FakeSlurmTools;

namespace {

const std::string kScript = "#!/bin/sh\ntrue\n";

Json request(const FakeSlurmTools& slurm, size_t job) { return slurm.jobs().at(job).at("request"); }

}  // namespace

TEST_CASE("sbatch prints the id in a sentence, or alone", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  CHECK(slurm.run("sbatch", kScript).out == "Submitted batch job 1\n");
  CHECK(slurm.run("sbatch --parsable", kScript).out == "2\n");
  slurm.control("set federation=on");
  CHECK(slurm.run("sbatch --parsable", kScript).out == "3;alpha\n");
}

TEST_CASE("the command line wins over #SBATCH lines, which end at the first command",
          "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.write("job.sh",
              "#!/bin/bash\n#SBATCH --job-name=\"from script\" -n 2\n#SBATCH --mem 2G # comment\n\n"
              "true\n#SBATCH --comment=late\n");
  CHECK(slurm.run("sbatch -Jshort --time=1:30 -c2 job.sh a 'b c'").status == 0);
  CHECK(slurm.run("sbatch --ntasks=3 job.sh").status == 0);
  CHECK(request(slurm, 0).at("name") == "short");
  CHECK(request(slurm, 0).at("minutes") == 2);
  CHECK(request(slurm, 0).at("memory_mb") == 2048);
  CHECK(request(slurm, 0).at("arguments") == Json{"a", "b c"});
  CHECK_FALSE(request(slurm, 0).contains("comment"));
  CHECK(request(slurm, 1).at("name") == "from script");
  CHECK(request(slurm, 1).at("ntasks") == 3);
}

TEST_CASE("mistakes have the words and the exit status of sbatch 22.05", "[fake_slurm]") {
  struct Case {
    std::string options, input, err;
    int status;
  };
  const std::string help = "Try \"sbatch --help\" for more information\n";
  const auto [options, input, err, status] = GENERATE_COPY(
      Case{"--foo", kScript, "sbatch: unrecognized option '--foo'\n" + help, 255},
      Case{"", "#!/bin/sh\n#SBATCH --bar\n", "sbatch: unrecognized option '--bar'\n" + help, 255},
      Case{"--time=x", kScript, "sbatch: error: Invalid --time specification\n", 255},
      Case{"-n x", kScript, "sbatch: error: Invalid numeric value \"x\" for --ntasks.\n", 1},
      Case{"--signal=ZZ", kScript, "sbatch: error: Invalid --signal specification\n", 255},
      Case{"--begin=zz", kScript,
           "Invalid time specification (pos=0): zz\nsbatch: error: Invalid --begin specification\n",
           255},
      Case{"nofile.sh", "", "sbatch: error: Unable to open file nofile.sh\n", 1},
      Case{"", "echo\n",
           "sbatch: error: This does not look like a batch script.  The first\n"
           "sbatch: error: line must start with #! followed by the path to an interpreter.\n"
           "sbatch: error: For instance: #!/bin/sh\n",
           1},
      Case{"-p nowhere", kScript,
           "sbatch: error: Batch job submission failed: Invalid partition name specified\n", 1},
      Case{"-d afterok:x", kScript,
           "sbatch: error: Batch job submission failed: Job dependency problem\n", 1});
  const FakeSlurmTools slurm;
  const auto result = slurm.run("sbatch " + options, input);
  CHECK(result.err == err);
  CHECK(result.status == status);
  CHECK(result.out.empty());
  CHECK(slurm.jobs().empty());
}

TEST_CASE("submit limits are refused as SLURM refuses them", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("set max_submit=2");
  slurm.submit("-a 1-2");
  CHECK(
      slurm.run("sbatch", kScript).err ==
      "sbatch: error: QOSMaxSubmitJobPerUserLimit\n"
      "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit "
      "limit, user's size and/or time limits)\n");
  slurm.control("set max_submit=0 max_job_count=3");
  CHECK(slurm.run("sbatch", kScript).err ==
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n"
        "sbatch: error: Batch job submission failed: Resource temporarily unavailable\n");
}

TEST_CASE("an old SLURM does not know the options of a new one", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("version 20.11");
  CHECK(slurm.run("sbatch --prefer=fast", kScript).status == 255);
  CHECK(slurm.run("scancel --me").status == 1);
  CHECK(slurm.run("squeue --me").status == 0);
  CHECK(slurm.run("sbatch --version").out == "slurm 20.11.0\n");
  slurm.control("version 22.05");
  CHECK(slurm.run("sbatch --prefer=fast", kScript).status == 0);
  CHECK(slurm.run("scancel --me").status == 0);
}

TEST_CASE("scontrol points a child to another parent, and it runs", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.submit("-d afterok:1");
  slurm.submit("-d afterok:2");
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

TEST_CASE("scontrol points one task of an array to another parent", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-a 1-3");
  slurm.submit("-a 1-3 -d aftercorr:1");
  slurm.control("end 1_2 FAILED");
  const std::string again = slurm.submit();
  CHECK(slurm.run("scontrol update JobId=2_2 Dependency=afterok:" + again).status == 0);
  CHECK(slurm.field("2_2", "%i %r %E") == "2_2 Dependency afterok:" + again + "(unfulfilled)");
  CHECK(slurm.field("2_1", "%r %E") == "Dependency aftercorr:1_*(unfulfilled)");
}

TEST_CASE("what scontrol cannot do it says as SLURM does", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  CHECK(slurm.run("scontrol update jobid=9 dependency=").err ==
        "Invalid job id specified for job 9\n");
  CHECK(slurm.run("scontrol update jobid=1 dependency=afterok:1").err ==
        "Job dependency problem for job 1\n");
  slurm.control("advance 1");
  CHECK(slurm.run("scontrol update jobid=1 dependency=afterok:5").err ==
        "Job is no longer pending execution for job 1\n");
  slurm.submit("-d afterok:1");
  CHECK(slurm.run("scontrol requeue 2").err == "Job is pending execution for job 2\n");
  slurm.submit("--no-requeue");
  slurm.control("advance 1");
  CHECK(slurm.run("scontrol requeue 3").err ==
        "Requested operation is presently disabled for job 3\n");
  CHECK(slurm.run("scontrol frobnicate").err == "invalid keyword: frobnicate\n");
}

TEST_CASE("users may shorten a time limit, not extend it", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-t 10");
  CHECK(slurm.run("scontrol update jobid=1 timelimit=20").err ==
        "Access/permission denied for job 1\n");
  CHECK(slurm.run("scontrol update jobid=1 timelimit=5").status == 0);
  CHECK(slurm.field("1", "%l") == "5:00");
}

TEST_CASE("a held job waits until it is released", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("--hold");
  slurm.control("advance 5");
  CHECK(slurm.field("1", "%T %r") == "PENDING JobHeldUser");
  slurm.run("scontrol release 1");
  slurm.control("advance 5");
  CHECK(slurm.field("1", "%T") == "RUNNING");
}

TEST_CASE("scancel takes jobs, tasks, names and states", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-a 1-4 -J many");
  slurm.submit("-J one");
  slurm.control("advance 1");
  const std::string waiting = slurm.submit("-J one");
  CHECK(slurm.run("scancel 1_2 '1_[3-4]'").status == 0);
  CHECK(slurm.field("1_2", "%T") == "CANCELLED");
  CHECK(slurm.field("1_1", "%T") == "RUNNING");
  CHECK(slurm.run("scancel -n one -t PENDING").status == 0);
  CHECK(slurm.field("2", "%T") == "RUNNING");
  CHECK(slurm.field(waiting, "%T") == "CANCELLED");
  slurm.run("scancel --me");
  CHECK(slurm.run("squeue -h").out.empty());
  CHECK(slurm.run("scancel 99").status == 0);  // unknown ids are no mistake, unless it looks first
  CHECK(slurm.run("scancel -b -s USR1 99").err ==
        "scancel: error: Kill job error on job id 99: Invalid job id specified\n");
  CHECK(slurm.run("scancel").err == "scancel: error: No job identification provided\n");
}
