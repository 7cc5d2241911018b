#include "tests/support/catch.h"
#include "tests/support/fake_slurm_tools.h"

using namespace dlflow;
using test::FakeSlurmTools;

namespace {

/// Lets the background jobs go on until `field` of a job is `expected`.
std::string wait_for_field(const FakeSlurmTools& slurm, const std::string& id,
                           const std::string& format, const std::string& expected) {
  std::string seen;
  for (int i = 0; i < 500 && seen != expected; ++i) {
    seen = slurm.field(id, format);
    if (seen != expected) slurm.run("sleep 0.02");
  }
  return seen;
}

std::string wait_for_file(const FakeSlurmTools& slurm, const std::string& name,
                          const std::string& expected) {
  std::string seen;
  for (int i = 0; i < 500 && seen != expected; ++i) {
    seen = read_file_if_exists(slurm.folder() / name).value_or("");
    if (seen != expected) slurm.run("sleep 0.02");
  }
  return seen;
}

}  // namespace

TEST_CASE("scripts run in their folder with SLURM's variables, and their status decides",
          "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("mode run");
  slurm.write(
      "job.sh",
      "#!/bin/sh\necho $SLURM_JOB_ID $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_NTASKS "
      "$SLURM_CPUS_PER_TASK $SLURM_JOB_NODELIST $SLURM_JOB_NAME [$SLURM_RESTART_COUNT]\n"
      "echo \"$1 $WORD\" >&2\n[ $SLURM_ARRAY_TASK_ID = 1 ] || exit 7\n");
  std::filesystem::create_directory(slurm.folder() / "there");
  slurm.run("WORD=kept sbatch -D there -a 1-2 -n2 -c2 -J x -o out.%A_%a -e %x.err.%j job.sh arg");
  CHECK(slurm.field("1", "%T") == "PENDING");
  slurm.control("settle");
  CHECK(slurm.field("1_1", "%T") == "COMPLETED");
  CHECK(slurm.field("1_2", "%T") == "FAILED");
  CHECK(slurm.run("sacct -X -n -P -j 1_2 -o exitcode").out == "7:0\n");
  CHECK(read_file(slurm.folder() / "there/out.1_1") == "2 1 1 2 2 alpha-n1 x []\n");
  CHECK(read_file(slurm.folder() / "there/x.err.1") == "arg kept\n");
}

TEST_CASE("a chain of scripts settles, with what a job submits and requeues itself",
          "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("mode run");
  slurm.write("job.sh",
              "#!/bin/sh\necho pass ${SLURM_RESTART_COUNT:-0}\n"
              "[ -n \"$SLURM_RESTART_COUNT\" ] || scontrol requeue $SLURM_JOB_ID\n");
  slurm.run("sbatch -o out --open-mode=append job.sh");
  slurm.run("sbatch -d afterok:1 -o child", "#!/bin/sh\nsbatch --wrap 'exit 1' > /dev/null\n");
  slurm.control("settle");
  CHECK(read_file(slurm.folder() / "out") == "pass 0\npass 1\n");
  CHECK(slurm.field("1", "%T") == "COMPLETED");
  CHECK(slurm.field("2", "%T %S") == "COMPLETED 2026-11-21T08:02:01");
  CHECK(slurm.field("3", "%T %j") == "FAILED wrap");
}

TEST_CASE("output that cannot be opened fails a job as SLURM does", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("mode run");
  slurm.submit("-o nowhere/out");
  slurm.control("settle");
  CHECK(slurm.run("sacct -X -n -P -j 1 -o state,exitcode").out == "FAILED|0:53\n");
}

TEST_CASE("in the background jobs start by themselves and get signals", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("mode run background");
  const std::string script =
      "#!/bin/sh\ntrap 'echo saved; exit 0' USR1\ntrap 'echo ended; exit 1' TERM\necho begun\n"
      "while true; do sleep 0.01; done\n";
  slurm.run("sbatch -o 1.out", script);
  slurm.run("sbatch -o 2.out -e err", script);
  slurm.run("sbatch -d afterok:1 -o 3.out", "#!/bin/sh\necho child\n");
  CHECK(wait_for_file(slurm, "1.out", "begun\n") == "begun\n");
  CHECK(wait_for_file(slurm, "2.out", "begun\n") == "begun\n");
  slurm.run("scancel --batch --signal=USR1 1");
  CHECK(wait_for_field(slurm, "1", "%T", "COMPLETED") == "COMPLETED");
  CHECK(wait_for_file(slurm, "3.out", "child\n") == "child\n");
  slurm.run("scancel 2");
  CHECK(slurm.field("2", "%T") == "CANCELLED");
  CHECK(wait_for_file(slurm, "2.out", "begun\nended\n") == "begun\nended\n");
}

TEST_CASE("the clock of a background world can be moved on to the time limit", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("mode run background");
  slurm.run(
      "sbatch -t 5 --signal=B:USR1@60 -o out",
      "#!/bin/sh\ntrap 'echo saved; exit 0' USR1\necho begun\nwhile true; do sleep 0.01; done\n");
  CHECK(wait_for_file(slurm, "out", "begun\n") == "begun\n");
  slurm.control("advance 245");
  CHECK(wait_for_file(slurm, "out", "begun\nsaved\n") == "begun\nsaved\n");
  CHECK(wait_for_field(slurm, "1", "%T", "COMPLETED") == "COMPLETED");
}

TEST_CASE("an answer that was lost does not keep a background job alive", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("mode run background");
  slurm.run(
      "sbatch -o out -e err",
      "#!/bin/sh\ntrap 'echo ended; exit 1' TERM\necho begun\nwhile true; do sleep 0.01; done\n");
  CHECK(wait_for_file(slurm, "out", "begun\n") == "begun\n");
  slurm.control("fault scancel after kill");
  CHECK(slurm.run("scancel 1").status == 137);
  CHECK(wait_for_file(slurm, "out", "begun\nended\n") == "begun\nended\n");
}
