#include "engine/gridengine/script.h"

#include "base/text.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

Batch array() {
  Batch batch;
  batch.name = "sweep-7f3a.2.eval";
  batch.tasks = {2, 3, 4};
  batch.max_parallel = 2;
  batch.run_directory = "/runs/it's mine";
  batch.log = "/runs/it's mine/log.{task}";
  batch.command = {"bin/dlflow", "job-exec", "b c", "{task}"};
  return batch;
}

Profile profile() {
  Profile profile;
  profile.scheduler = "gridengine";
  return profile;
}

/// Returns the options from `first` on.
std::string options(const Batch& batch, const Profile& profile, const std::string& first) {
  const std::string line = join(qsub_call(batch, profile).argv, " ");
  return line.substr(std::min(line.size(), line.find(first)));
}

}  // namespace

TEST_CASE("a batch becomes options of qsub and a script", "[gridengine]") {
  const QsubCall call = qsub_call(array(), profile());
  CHECK(join(call.argv, " ") == "qsub -terse -C  -V -N sweep-7f3a.2.eval -S " + batch_shell() +
                                    " -wd / -o /dev/null -j y -notify -r y "
                                    "-t 3-5 -tc 2");
  CHECK(call.script == "#!" + batch_shell() + R"(
PATH=${SGE_O_PATH:-$PATH}; export PATH
trap '' USR1
task=$((SGE_TASK_ID - 1))
cd '/runs/it'\''s mine' && true >>'/runs/it'\''s mine/'log."$task" || exit 53
exec >>'/runs/it'\''s mine/'log."$task" 2>&1
exec bin/dlflow job-exec 'b c' "$task"
)");
}

TEST_CASE("a plain job is task 0", "[gridengine]") {
  Batch batch = array();
  batch.tasks.clear();
  CHECK_THAT(qsub_call(batch, profile()).script, Catch::Contains("\ntask=0\n"));
  CHECK(options(batch, profile(), "-t 3").empty());
}

TEST_CASE("only arrays wait task by task", "[gridengine]") {
  using Kind = Dependency::Kind;
  Batch batch = array();
  batch.dependencies = {{Kind::Success, "811"},
                        {Kind::Success, "812_3"},
                        {Kind::SameTask, "813"},
                        {Kind::End, "812"}};
  CHECK(options(batch, profile(), "-hold") == "-hold_jid 811,812 -hold_jid_ad 813");
  batch.tasks.clear();
  CHECK(options(batch, profile(), "-hold") == "-hold_jid 811,812,813");
}

TEST_CASE("cores are slots, and memory is asked for per slot", "[gridengine]") {
  Batch batch = array();
  batch.resources.ranks = 2;
  batch.resources.cpus_per_rank = 3;
  batch.resources.gpus_per_rank = 1;
  batch.resources.memory_bytes = (uint64_t{6} << 30) + 1;
  Profile ours = profile();
  CHECK_THROWS_WITH(
      qsub_call(batch, ours),
      "Grid Engine cannot be asked for the resources of sweep-7f3a.2.eval: it needs 6 slots; set "
      "gridengine.parallel_environment in the profile");
  ours.batch_options["gridengine"]["parallel_environment"] = "mpi";
  CHECK_THROWS_WITH(qsub_call(batch, ours), Catch::Contains("gridengine.gpus"));
  ours.batch_options["gridengine"]["gpus"] = "gpu={gpus},gputype=a100";
  CHECK(options(batch, ours, "-pe") == "-pe mpi 6 -l gpu=2,gputype=a100");
  ours.batch_options["gridengine"]["memory"] = "h_vmem";
  CHECK(options(batch, ours, "-pe") == "-pe mpi 6 -l h_vmem=1025M -l gpu=2,gputype=a100");
}

TEST_CASE("a job is warned before its time limit", "[gridengine]") {
  Batch batch = array();
  batch.resources.walltime = std::chrono::minutes(20);
  CHECK(options(batch, profile(), "-l") == "-l h_rt=1260,s_rt=1200");
  batch.resources.walltime = std::chrono::seconds(5);
  CHECK(options(batch, profile(), "-l") == "-l h_rt=60,s_rt=50");
}

TEST_CASE("the profile's queue and free options come last", "[gridengine]") {
  Profile ours = profile();
  ours.batch_options["gridengine"]["project"] = "p1";
  ours.batch_options["gridengine"]["queue"] = "short.q,long.q";
  ours.batch_options["gridengine"]["options"] = {"-l arch=lx-amd64", "-R y"};
  Batch batch = array();
  batch.may_requeue = false;
  CHECK(options(batch, ours, "-r ") ==
        "-r n -t 3-5 -tc 2 -P p1 -q short.q,long.q -l arch=lx-amd64 -R y");
}

TEST_CASE("the soft limit comes as early as the program needs it to save", "[gridengine]") {
  Batch batch = array();
  batch.resources.walltime = std::chrono::minutes(20);
  batch.lead = std::chrono::minutes(5);
  CHECK(options(batch, profile(), "-l") == "-l h_rt=1260,s_rt=960");
}

TEST_CASE("licences are consumables of Grid Engine, and whole nodes are a class of the profile",
          "[gridengine]") {
  Batch batch = array();
  batch.resources.licences = {{"matlab", 2}, {"abaqus", 1}};
  CHECK_THAT(options(batch, profile(), "-l "), Catch::StartsWith("-l abaqus=1 -l matlab=2"));
  batch.resources.exclusive = true;
  CHECK_THROWS_WITH(qsub_call(batch, profile()), Catch::Contains("define a class for it"));
}
