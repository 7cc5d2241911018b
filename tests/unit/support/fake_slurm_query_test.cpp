#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/support/fake_slurm_tools.h"

using namespace dlflow;
using test::FakeSlurmTools;

namespace {

/// The output of sacct for all times.
std::string sacct(const FakeSlurmTools& slurm, const std::string& fields,
                  const std::string& options = "") {
  return slurm.run("sacct --starttime=2026-01-01T00:00:00 --format=" + fields + " " + options).out;
}

}  // namespace

TEST_CASE("squeue gives the times of a job", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("--job-name=a --time=90 --nodes=2 --ntasks=2 --cpus-per-task=3");
  slurm.control("advance 90");
  CHECK(slurm.field("1", "%T|%M|%l|%S|%V|%e|%N|%E|%r|%j") ==
        "RUNNING|1:30|1:30:00|2026-11-21T08:00:00|2026-11-21T08:00:00|2026-11-21T09:30:00|"
        "alpha-n[1-2]|(null)|None|a");
}

TEST_CASE("pending tasks of an array share a line of sacct and scontrol, truncated as by SLURM",
          "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("--array=1-9%2");
  slurm.control("advance 1");
  CHECK(sacct(slurm, "JobID", "--jobs=1") == "1_1\n1_1.batch\n1_2\n1_2.batch\n1_[3-9%2]\n");
  CHECK(slurm.run("squeue --format=%i").out == "1_1\n1_2\n1_3\n1_4\n1_5\n1_6\n1_7\n1_8\n1_9\n");
  const std::string id =
      slurm.submit("--array=1,3,7,9,13,15,19,21,25,27,31,33,37,39,43,45,49,51,55,57,61,63,67");
  const std::string list = sacct(slurm, "JobID", "--jobs=" + id);
  CHECK(list.ends_with("...]\n"));
  CHECK(list.size() == id.size() + std::string("_[]\n").size() + 63);
  CHECK(slurm.run("SLURM_BITSTR_LEN=0 scontrol show job " + id).out.find(",63,67 JobName") !=
        std::string::npos);
  const std::string even = slurm.submit("--array=0,2,4,6,8,10,12,14,16,18,20");
  CHECK(sacct(slurm, "JobID", "--jobs=" + even) == even + "_[0-20:2]\n");
}

TEST_CASE("ended jobs are in squeue --states=all until they are purged, and then in sacct",
          "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.control("end 1 OUT_OF_MEMORY");
  CHECK(slurm.run("squeue --format=%i").out.empty());
  CHECK(slurm.field("1", "%T %r") == "OUT_OF_MEMORY OutOfMemory");
  slurm.control("purge");
  CHECK(slurm.run("squeue --states=all --format=%i").out.empty());
  CHECK(slurm.run("scontrol show job 1").err ==
        "slurm_load_jobs error: Invalid job id specified\n");
  CHECK(sacct(slurm, "State,ExitCode") == "OUT_OF_MEMORY|0:125\nOUT_OF_MEMORY|0:125\n");
}

TEST_CASE("sacct prints a job, its batch step, and the user who cancelled it", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("--job-name=train --time=10");
  slurm.control("advance 90");
  CHECK(sacct(slurm, "JobID,State,End") == "1|RUNNING|Unknown\n1.batch|RUNNING|Unknown\n");
  slurm.run("scancel 1");
  CHECK(sacct(slurm, "JobID,ExitCode,Start,End,Elapsed,Timelimit,MaxRSS,JobName") ==
        "1|0:0|2026-11-21T08:00:00|2026-11-21T08:01:30|00:01:30|00:10:00||train\n"
        "1.batch|0:15|2026-11-21T08:00:00|2026-11-21T08:01:30|00:01:30||2048K|batch\n");
  CHECK(sacct(slurm, "State") == "CANCELLED by " + std::to_string(::getuid()) + "\nCANCELLED\n");
  const auto unknown = slurm.run("sacct --starttime=2026-01-01T00:00:00 --format=Restarts");
  CHECK(unknown.err == "sacct: error: Invalid field requested: \"Restarts\"\n");
}

TEST_CASE("sacct lists jobs not yet ended at --starttime, and never eligible ones by number",
          "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.submit("--dependency=afterok:1");
  CHECK(sacct(slurm, "JobID") == "1\n");
  slurm.control("end 1 FAILED");
  CHECK(sacct(slurm, "JobID") == "1\n1.batch\n");
  CHECK(sacct(slurm, "JobID", "--jobs=2") == "2\n");
  CHECK(slurm.run("sacct --starttime=2026-11-22T00:00:00 --format=JobID").out.empty());
}

TEST_CASE("a requeued job waits under the same id", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.control("advance 10");
  slurm.run("scontrol requeue 1");
  CHECK(slurm.field("1", "%T %r") == "PENDING BeginTime");
  CHECK(slurm.run("scontrol --oneliner show job 1").out.find(" Restarts=1 ") != std::string::npos);
}

TEST_CASE("sacct reports that accounting is off", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("set accounting=off");
  const auto result = slurm.run("sacct --jobs=1");
  CHECK(result.status == 1);
  CHECK(result.err == "Slurm accounting storage is disabled\n");
  CHECK(slurm.run("scontrol show config").out.find("accounting_storage/none") != std::string::npos);
}

TEST_CASE("a profile can be detected", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("set nodes=3 cpus=8");
  CHECK(slurm.run("sinfo --noheader '--format=%R|%D|%c|%m|%G'").out ==
        "batch|3|8|8000|(null)\nshort|3|8|8000|(null)\n");
  CHECK(slurm.run("scontrol --oneliner show partition")
            .out.find("PartitionName=short Default=NO DefaultTime=NONE MaxNodes=UNLIMITED "
                      "MaxTime=00:05:00 ") != std::string::npos);
  const auto config = slurm.run("scontrol show config").out;
  CHECK(config.find("MaxArraySize            = 1001\n") != std::string::npos);
}
