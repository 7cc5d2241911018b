#include "tests/support/catch.h"
#include "tests/support/fake_slurm_tools.h"

using namespace dlflow;
using test::FakeSlurmTools;

namespace {

/// Lets background jobs go on until `field` of a job is `expected`.
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

/// Submits a script that runs until a signal, which `trap` handles, and waits until it has begun.
void begin_in_background(const FakeSlurmTools& slurm, const std::string& options,
                         const std::string& trap) {
  slurm.control("mode background");
  slurm.run("sbatch --output=out " + options,
            "#!/bin/sh\nexec 2>err\n" + trap + "\necho begun\nwhile true; do sleep 0.01; done\n");
  CHECK(wait_for_file(slurm, "out", "begun\n") == "begun\n");
}

}  // namespace

TEST_CASE("scripts run in their folder with SLURM's variables, and their status is the job's",
          "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("mode background");
  std::filesystem::create_directory(slurm.folder() / "there");
  slurm.run(
      "WORD=kept sbatch --chdir=there --array=1-2 --ntasks=2 --cpus-per-task=2 --job-name=x "
      "--output=out%%.%a",
      "#!/bin/sh\necho $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_NTASKS "
      "$SLURM_CPUS_PER_TASK $SLURM_JOB_NODELIST $SLURM_JOB_NAME [$SLURM_RESTART_COUNT]\n"
      "echo $WORD >&2\n[ $SLURM_ARRAY_TASK_ID = 1 ] || exit 7\n");
  CHECK(wait_for_field(slurm, "1_1", "%T", "COMPLETED") == "COMPLETED");
  CHECK(wait_for_field(slurm, "1_2", "%T", "FAILED") == "FAILED");
  CHECK(slurm.run("sacct --jobs=1_2 --starttime=2026-01-01T00:00:00 --format=ExitCode").out ==
        "7:0\n7:0\n");
  CHECK(read_file(slurm.folder() / "there/out%.1") == "1 1 2 2 alpha-n1 x []\nkept\n");
}

TEST_CASE("a job whose output cannot be opened fails as in SLURM", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("mode background");
  slurm.submit("--output=nowhere/out");
  CHECK(wait_for_field(slurm, "1", "%T", "FAILED") == "FAILED");
  CHECK(slurm.run("scontrol show job 1").out.find(" ExitCode=0:53 ") != std::string::npos);
}

TEST_CASE("background jobs start by themselves and get signals", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  slurm.control("mode background");
  const std::string script =
      "#!/bin/sh\nexec 2>err\ntrap 'echo saved; exit 0' INT\ntrap 'echo ended; exit 1' TERM\necho "
      "begun\n"
      "while true; do sleep 0.01; done\n";
  slurm.run("sbatch --output=1.out", script);
  slurm.run("sbatch --output=2.out", script);
  slurm.run("sbatch --dependency=afterok:1 --output=3.out", "#!/bin/sh\necho child\n");
  CHECK(wait_for_file(slurm, "1.out", "begun\n") == "begun\n");
  CHECK(wait_for_file(slurm, "2.out", "begun\n") == "begun\n");
  slurm.run("scancel --batch --signal=INT --state=RUNNING --jobname=sbatch 1");
  CHECK(wait_for_field(slurm, "1", "%T", "COMPLETED") == "COMPLETED");
  CHECK(wait_for_file(slurm, "3.out", "child\n") == "child\n");
  slurm.run("scancel 2");
  CHECK(slurm.field("2", "%T") == "CANCELLED");
  CHECK(wait_for_file(slurm, "2.out", "begun\nended\n") == "begun\nended\n");
}

TEST_CASE("the clock of a background world can be advanced to the time limit", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  begin_in_background(slurm, "--time=5 --signal=B:USR1@60", "trap 'echo saved; exit 0' USR1");
  slurm.control("advance 245");
  CHECK(wait_for_file(slurm, "out", "begun\nsaved\n") == "begun\nsaved\n");
  CHECK(wait_for_field(slurm, "1", "%T", "COMPLETED") == "COMPLETED");
}

TEST_CASE("an answer that was lost does not keep a background job alive", "[fake_slurm]") {
  const FakeSlurmTools slurm;
  begin_in_background(slurm, "", "trap 'echo ended; exit 1' TERM");
  slurm.control("fault scancel after timeout");
  CHECK(slurm.run("scancel 1").status == 1);
  CHECK(wait_for_file(slurm, "out", "begun\nended\n") == "begun\nended\n");
}
