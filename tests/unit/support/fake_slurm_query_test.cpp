#include "tests/support/catch.h"
#include "tests/support/fake_slurm_tools.h"

using namespace dlflow;
using test::FakeSlurmTools;

TEST_CASE("squeue's table has SLURM's columns", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.run("FAKE_SLURM_USER=ada sbatch -J preprocessing -n4", "#!/bin/sh\n");
  slurm.control("advance 0");
  slurm.run("FAKE_SLURM_USER=ada sbatch -J next -d afterok:1", "#!/bin/sh\n");
  slurm.control("advance 3671");
  CHECK(slurm.run("squeue").out ==
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "                 2     batch     next      ada PD       0:00      1 (Dependency)\n"
        "                 1     batch preproce      ada  R    1:01:11      1 alpha-n1\n");
  CHECK(slurm.run("squeue -h -u ada -n next -o '%i|%A|%F|%K|%T|%t|%j'").out ==
        "2|2|2|N/A|PENDING|PD|next\n");
  CHECK(slurm.run("squeue -h -u bob").out.empty());
}

TEST_CASE("squeue gives the times of a job", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-t 1:30:00 -N2 -n2 -c3 -A proj -q high --comment='run 7'");
  slurm.control("advance 90");
  CHECK(
      slurm.field("1", "%M|%l|%L|%S|%e|%D|%C|%N|%R|%a|%q|%k|%P|%E") ==
      "1:30|1:30:00|1:28:30|2026-11-21T08:00:00|2026-11-21T09:30:00|2|6|alpha-n[1-2]|alpha-n[1-2]|"
      "proj|high|run 7|batch|(null)");
}

TEST_CASE("pending tasks of an array are one line unless each is asked for", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("set next_id=812");
  slurm.submit("-a 1-9%2");
  CHECK(slurm.run("squeue -h -o '%i %K %F'").out == "812_[1-9%2] 1-9%2 812\n");
  slurm.control("advance 1");
  CHECK(slurm.run("squeue -h -o '%i %A %t'").out ==
        "812_[3-9%2] 812 PD\n812_1 813 R\n812_2 814 R\n");
  CHECK(slurm.run("squeue -h -r -t PD -o '%i'").out ==
        "812_3\n812_4\n812_5\n812_6\n812_7\n812_8\n812_9\n");
  CHECK(slurm.field("812_5", "%i") == "812_5");
  CHECK(slurm.field("813", "%i") == "812_1");
}

TEST_CASE("long lists of tasks are cut as SLURM cuts them", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-a 1,3,7,9,13,15,19,21,25,27,31,33,37,39,43,45,49,51,55,57,61,63,67");
  const std::string id = slurm.field("1", "%i");
  CHECK(id.ends_with("...]"));
  CHECK(id.size() == std::string("1_[]").size() + 63);
  CHECK(slurm.run("SLURM_BITSTR_LEN=4096 squeue -h -o %i").out.ends_with(",63,67]\n"));
  slurm.submit("-a 0-20:2");
  CHECK(slurm.field("2", "%i") == "2_[0-20:2]");
}

TEST_CASE("squeue fails for one unknown id, and passes over it among several", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  const auto unknown = slurm.run("squeue -h -j 99");
  CHECK(unknown.status == 1);
  CHECK(unknown.err == "slurm_load_jobs error: Invalid job id specified\n");
  CHECK(slurm.run("squeue -h -j 1,99 -o %i").out == "1\n");
  CHECK(slurm.run("squeue -j x").err == "squeue: error: Invalid job id: x\n");
}

TEST_CASE("ended jobs are in squeue -t all until they are purged, and then in sacct",
          "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.control("end 1 OUT_OF_MEMORY");
  CHECK(slurm.run("squeue -h").out.empty());
  CHECK(slurm.field("1", "%T %t %R") == "OUT_OF_MEMORY OOM (OutOfMemory)");
  slurm.control("purge");
  CHECK(slurm.run("squeue -h -t all").out.empty());
  CHECK(slurm.run("squeue -h -j 1").status == 1);
  CHECK(slurm.run("scontrol show job 1").err ==
        "slurm_load_jobs error: Invalid job id specified\n");
  CHECK(slurm.run("sacct -X -n -P -o state,exitcode -j 1").out == "OUT_OF_MEMORY|0:125\n");
}

TEST_CASE("sacct prints a job and its batch step", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-J train -t 10 --mem=2G");
  slurm.control("outcome train 90 FAILED 3");
  slurm.control("advance 100");
  CHECK(slurm
            .run("sacct -P -j 1 -o "
                 "JobID,State,ExitCode,Start,End,ElapsedRaw,TimelimitRaw,MaxRSS,ReqMem")
            .out ==
        "JobID|State|ExitCode|Start|End|ElapsedRaw|TimelimitRaw|MaxRSS|ReqMem\n"
        "1|FAILED|3:0|2026-11-21T08:00:00|2026-11-21T08:01:30|90|10||2G\n"
        "1.batch|FAILED|3:0|2026-11-21T08:00:00|2026-11-21T08:01:30|90||2048K|\n");
  CHECK(slurm.run("sacct -X -j 1 -o jobid,jobname%4,state").out ==
        "JobID        JobN      State \n"
        "------------ ---- ---------- \n"
        "1            tra+     FAILED \n");
}

TEST_CASE("sacct says who cancelled a job, and Unknown for times to come", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-a 0-3");
  slurm.submit();
  slurm.control("advance 1");
  slurm.run("FAKE_SLURM_USER=x scancel 2");
  CHECK(slurm.run("sacct -n -P -j 2 -o jobid,state,exitcode").out ==
        "2|CANCELLED by 2120|0:0\n2.batch|CANCELLED|0:15\n");
  CHECK(slurm.run("sacct -X -n -P -j 1_0 -o jobid,jobidraw,state,end").out ==
        "1_0|3|RUNNING|Unknown\n");
}

TEST_CASE("sacct looks since midnight, unless jobs are named", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit("-J old");
  slurm.control("outcome old 60 COMPLETED");
  slurm.control("advance 90000");  // the next day
  CHECK(slurm.run("sacct -X -n -P -o jobid").out.empty());
  CHECK(slurm.run("sacct -X -n -P -o jobid -j 1").out == "1\n");
  CHECK(slurm.run("sacct -X -n -P -o jobid -S now-2days --name=old").out == "1\n");
  CHECK(slurm.run("sacct -X -n -P -o jobid -S 2026-11-21 -E 2026-11-22T00:00").out == "1\n");
}

TEST_CASE("a requeued job has a line for each pass with -D", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.submit();
  slurm.control("advance 10");
  slurm.control("end 1 NODE_FAIL");
  CHECK(slurm.field("1", "%T %r") == "PENDING BeginTime");
  slurm.control("advance 200");
  slurm.control("end 1 COMPLETED");
  CHECK(slurm.run("sacct -X -n -P -j 1 -o state").out == "COMPLETED\n");
  CHECK(slurm.run("sacct -X -n -P -D -j 1 -o state").out == "NODE_FAIL\nCOMPLETED\n");
  CHECK(slurm.run("scontrol -o show job 1").out.find(" Restarts=1 ") != std::string::npos);
}

TEST_CASE("sacct refuses fields that its version does not have", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  const auto result = slurm.run("sacct -o jobid,restarts");
  CHECK(result.status == 1);
  CHECK(result.err == "sacct: error: Invalid field requested: \"restarts\"\n");
  slurm.control("version 24.11");
  CHECK(slurm.run("sacct -o jobid,restarts").status == 0);
}

TEST_CASE("without accounting sacct says so", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("set accounting=off");
  const auto result = slurm.run("sacct -j 1");
  CHECK(result.status == 1);
  CHECK(result.err == "Slurm accounting storage is disabled\n");
  CHECK(slurm.run("scontrol show config").out.find("accounting_storage/none") != std::string::npos);
}

TEST_CASE("a profile can be detected", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("set nodes=3 cpus=8 memory_mb=16000 gpus=2 partitions=gpu:1440,long");
  CHECK(slurm.run("sinfo -h -o '%P|%a|%l|%D|%c|%m|%G|%N'").out ==
        "gpu*|up|1-00:00:00|3|8|16000|gpu:2|alpha-n[1-3]\n"
        "long|up|infinite|3|8|16000|gpu:2|alpha-n[1-3]\n");
  const auto partitions = slurm.run("scontrol -o show partition").out;
  CHECK(partitions.starts_with("PartitionName=gpu AllowGroups=ALL"));
  CHECK(partitions.find("MaxTime=1-00:00:00") != std::string::npos);
  const auto config = slurm.run("scontrol show config").out;
  CHECK(config.find("MaxArraySize            = 1001\n") != std::string::npos);
  CHECK(config.find("SLURM_VERSION           = 22.05.8\n") != std::string::npos);
  CHECK(slurm.run("scontrol ping").out == "Slurmctld(primary) at alpha-ctl is UP\n");
}
