#include "engine/slurm/script.h"

#include "engine/slurm/section.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

Batch plain() {
  Batch batch;
  batch.name = "fashion-mnist-7f3a.data.1";
  batch.resources.walltime = 20min;
  batch.run_directory = "/home/ann/runs/fashion-mnist-7f3a";
  batch.log = "/home/ann/runs/fashion-mnist-7f3a/slurm.log";
  batch.command = {"/home/ann/runs/fashion-mnist-7f3a/bin/dlflow", "job-exec", "data"};
  return batch;
}

bool has(const std::string& script, const std::string& line) {
  return script.find("\n" + line + "\n") != script.npos;
}

}  // namespace

TEST_CASE("a plain job has this script", "[slurm]") {
  Profile profile;
  profile.batch_options["slurm"]["partition"] = "batch";
  CHECK(sbatch_script(plain(), profile) == "#!" + batch_shell() + R"(
#SBATCH --job-name=fashion-mnist-7f3a.data.1
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --time=21
#SBATCH --signal=B:USR1@60
#SBATCH --partition=batch
#SBATCH --requeue
#SBATCH --chdir=/home/ann/runs/fashion-mnist-7f3a
#SBATCH --output=/home/ann/runs/fashion-mnist-7f3a/slurm.log
#SBATCH --open-mode=append
#SBATCH --export=ALL

trap '' USR1
exec /home/ann/runs/fashion-mnist-7f3a/bin/dlflow job-exec data
)");
}

TEST_CASE("the smaller of the step's and the profile's array limit holds", "[slurm]") {
  const auto [step, profile_limit, range] = GENERATE(table<int, int, std::string>(
      {{0, 0, "0-4"}, {2, 0, "0-4%2"}, {0, 50, "0-4%50"}, {2, 50, "0-4%2"}, {80, 50, "0-4%50"}}));
  Batch batch = plain();
  batch.tasks = {0, 1, 2, 3, 4};
  batch.max_parallel = step;
  Profile profile;
  profile.limits.array_throttle = profile_limit;
  CHECK(has(sbatch_script(batch, profile), "#SBATCH --array=" + range));
}

TEST_CASE("a job that can never start leaves the queue if others wait for its end", "[slurm]") {
  Batch batch = plain();
  CHECK_FALSE(has(sbatch_script(batch, Profile()), "kill-on-invalid-dep"));
  batch.leaves_if_hopeless = true;
  CHECK(has(sbatch_script(batch, Profile()), "#SBATCH --kill-on-invalid-dep=yes"));
}

TEST_CASE("an array with all settings of a profile has this script", "[slurm]") {
  Batch batch = plain();
  batch.tasks = {0, 1, 2, 3, 4, 7};
  batch.resources = {.ranks = 6,
                     .cpus_per_rank = 4,
                     .gpus_per_rank = 1,
                     .memory_bytes = uint64_t{12} << 30,
                     .walltime = 4h};
  batch.dependencies = {{Dependency::Kind::SameTask, "812"}, {Dependency::Kind::Success, "811"}};
  batch.may_requeue = false;
  batch.comment = "dlflow fashion-mnist-7f3a, step train";
  batch.log = "/home/ann/runs/fashion-mnist-7f3a/slurm-{task}.log";
  batch.command.back() = kTaskWord;
  Profile profile;
  profile.ranks_per_node = 4;
  profile.limits.walltime = 4h;
  profile.limits.array_throttle = 50;
  profile.batch_options["slurm"] =
      json_of(SlurmOptions{.partition = "gpu",
                           .account = "project_1",
                           .qos = "normal",
                           .constraint = "[rack1|rack2]",
                           .reservation = "course",
                           .exclusive = true,
                           .gres = "gpu:a100:{gpus}",
                           .options = {"--hint=nomultithread", "--spread-job"}});
  CHECK(sbatch_script(batch, profile) == "#!" + batch_shell() + R"(
#SBATCH --job-name=fashion-mnist-7f3a.data.1
#SBATCH --comment="dlflow fashion-mnist-7f3a, step train"
#SBATCH --array=0-4,7%50
#SBATCH --dependency=afterok:811,aftercorr:812
#SBATCH --nodes=2
#SBATCH --ntasks=6
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --mem=8192M
#SBATCH --gres=gpu:a100:4
#SBATCH --time=240
#SBATCH --signal=B:USR1@60
#SBATCH --partition=gpu
#SBATCH --account=project_1
#SBATCH --qos=normal
#SBATCH --constraint="[rack1|rack2]"
#SBATCH --reservation=course
#SBATCH --exclusive
#SBATCH --no-requeue
#SBATCH --chdir=/home/ann/runs/fashion-mnist-7f3a
#SBATCH --output=/home/ann/runs/fashion-mnist-7f3a/slurm-%a.log
#SBATCH --open-mode=append
#SBATCH --export=ALL
#SBATCH --hint=nomultithread
#SBATCH --spread-job

trap '' USR1
exec /home/ann/runs/fashion-mnist-7f3a/bin/dlflow job-exec "${SLURM_ARRAY_TASK_ID:-0}"
)");
}

TEST_CASE("a step's layout of ranks on nodes overrides the profile's", "[slurm]") {
  Batch batch = plain();
  batch.resources = {.ranks = 6, .memory_bytes = uint64_t{6} << 30, .ranks_per_node = 3};
  Profile profile;
  profile.ranks_per_node = GENERATE(0, 1, 2);
  const std::string script = sbatch_script(batch, profile);
  CHECK(has(script, "#SBATCH --nodes=2"));
  CHECK(has(script, "#SBATCH --ntasks-per-node=3"));
  CHECK(has(script, "#SBATCH --mem=3072M"));
}

TEST_CASE("the memory of ranks on one node is requested for the node", "[slurm]") {
  Batch batch = plain();
  batch.resources = {.ranks = 2, .memory_bytes = uint64_t{6} << 30, .ranks_per_node = 2};
  const std::string script = sbatch_script(batch, Profile());
  CHECK(has(script, "#SBATCH --nodes=1"));
  CHECK(has(script, "#SBATCH --mem=6144M"));
}

TEST_CASE("a word that sbatch could read otherwise is quoted", "[slurm]") {
  CHECK(sbatch_quote("a-b_1/2.x=y:z,+@%n") == "a-b_1/2.x=y:z,+@%n");
  CHECK(sbatch_quote("") == "\"\"");
  CHECK(sbatch_quote("a b#c") == "\"a b#c\"");
  CHECK(sbatch_quote("\"\\") == "\"\\\"\\\\\"");
}

TEST_CASE("licences and whole nodes are asked for", "[slurm]") {
  Batch batch = plain();
  batch.resources.exclusive = true;
  batch.resources.licences = {{"matlab", 2}, {"abaqus@server", 1}};
  const std::string script = sbatch_script(batch, Profile());
  CHECK(has(script, "#SBATCH --exclusive"));
  CHECK(has(script, "#SBATCH --licenses=abaqus@server:1,matlab:2"));
}

TEST_CASE("sizes are per core and per task if SLURM lays out the ranks", "[slurm]") {
  Batch batch = plain();
  batch.resources = {.ranks = 3,
                     .cpus_per_rank = 2,
                     .gpus_per_rank = 1,
                     .memory_bytes = uint64_t{3} << 30,
                     .walltime = 0s};
  const std::string script = sbatch_script(batch, Profile());
  CHECK(has(script, "#SBATCH --ntasks=3"));
  CHECK(has(script, "#SBATCH --mem-per-cpu=512M"));
  CHECK(has(script, "#SBATCH --gpus-per-task=1"));
  CHECK(has(script, "#SBATCH --gpu-bind=none"));  // each rank sees those of its peers
  CHECK(script.find("nodes") == script.npos);
  CHECK(script.find("--time") == script.npos);  // the partition's default holds
}

TEST_CASE("a time limit is in minutes, with time to record, below the profile's", "[slurm]") {
  const auto limit = [](std::chrono::seconds walltime, std::chrono::seconds allowed) {
    Profile profile;
    profile.limits.walltime = allowed;
    Resources resources;
    resources.walltime = walltime;
    return time_limit(resources, profile);
  };
  CHECK(limit(20s, 0s) == 1min);
  CHECK(limit(30s, 0s) == 1min);
  CHECK(limit(31s, 0s) == 2min);
  CHECK(limit(20min, 0s) == 21min);
  CHECK(limit(4h, 4h) == 240min);
  CHECK(limit(20s, 30s) == 1min);
  CHECK(limit(0s, 4h) == 0min);
}

TEST_CASE("a short job is not asked to save as soon as it starts", "[slurm]") {
  Batch batch = plain();
  batch.resources.walltime = 20s;
  CHECK(has(sbatch_script(batch, Profile()), "#SBATCH --signal=B:USR1@10"));
  batch.resources.walltime = 90s;
  CHECK(has(sbatch_script(batch, Profile()), "#SBATCH --signal=B:USR1@20"));
}

TEST_CASE("ranks of a node see its GPUs under each form of request", "[slurm]") {
  const auto script = [](int ranks, const std::string& gres, std::vector<std::string> options) {
    Batch batch = plain();
    batch.resources.ranks = ranks;
    batch.resources.gpus_per_rank = 1;
    Profile profile;
    profile.ranks_per_node = 4;
    profile.batch_options["slurm"]["gres"] = gres;
    profile.batch_options["slurm"]["options"] = std::move(options);
    return sbatch_script(batch, profile);
  };
  const auto count = [](const std::string& text, const std::string& word) {
    return text.find(word) == text.npos ? 0 : 1;
  };
  CHECK(count(script(4, "gpu:{gpus}", {}), "gpu-bind") == 0);  // each rank sees all GPUs
  CHECK(has(script(4, "", {}), "#SBATCH --gpus-per-task=1"));
  CHECK(has(script(4, "", {}), "#SBATCH --gpu-bind=none"));
  CHECK(count(script(1, "", {}), "gpu-bind") == 0);
  CHECK(has(script(4, "", {"--gpu-bind=closest"}), "#SBATCH --gpu-bind=closest"));
  CHECK_FALSE(has(script(4, "", {"--gpu-bind=closest"}), "#SBATCH --gpu-bind=none"));
}

TEST_CASE("a free option replaces the equivalent one", "[slurm]") {
  Batch batch = plain();
  batch.resources.memory_bytes = uint64_t{1} << 30;
  batch.resources.gpus_per_rank = 1;
  Profile profile;
  profile.batch_options["slurm"]["options"] = {"--mem-per-cpu=2G", "--gpus-per-node=a100:1",
                                               "--time=5", "--exclusive"};
  const std::string script = sbatch_script(batch, profile);
  CHECK_FALSE(has(script, "#SBATCH --mem=1024M"));
  CHECK_FALSE(has(script, "#SBATCH --gres=gpu:1"));
  CHECK_FALSE(has(script, "#SBATCH --time=21"));
  CHECK(
      script.ends_with("#SBATCH --mem-per-cpu=2G\n#SBATCH --gpus-per-node=a100:1\n"
                       "#SBATCH --time=5\n#SBATCH --exclusive\n\ntrap '' USR1\n"
                       "exec /home/ann/runs/fashion-mnist-7f3a/bin/dlflow job-exec data\n"));
}

TEST_CASE("any character in a path reaches its place", "[slurm]") {
  Batch batch = plain();
  batch.run_directory = R"(/home/a b/it's "50%" #1)";
  batch.log = batch.run_directory / "slurm.log";
  batch.command = {R"(/home/a b/it's "50%" #1/dlflow)", "$HOME", "`x`", ""};
  const std::string script = sbatch_script(batch, Profile());
  CHECK(has(script, R"(#SBATCH --chdir="/home/a b/it's \"50%\" #1")"));
  CHECK(has(script, R"(#SBATCH --output="/home/a b/it's \"50%%\" #1/slurm.log")"));
  CHECK(script.ends_with(R"(exec '/home/a b/it'\''s "50%" #1/dlflow' '$HOME' '`x`' '')"
                         "\n"));
  batch.log = R"(/home/50%\x/slurm-{task}.log)";
  batch.tasks = {1};
  // A backslash in the path makes SLURM leave % alone; it removes one backslash.
  CHECK(has(sbatch_script(batch, Profile()), R"(#SBATCH --output="/home/50%\\\\x/slurm-0.log")"));
}

TEST_CASE("a line break in a path is refused", "[slurm]") {
  Batch batch = plain();
  batch.run_directory = "/home/two\nlines";
  CHECK_THROWS_WITH(sbatch_script(batch, Profile()),
                    Catch::StartsWith("sbatch cannot be given --chdir: there is a line break"));
}

TEST_CASE("the warning comes as early as the program needs it to save", "[slurm]") {
  Batch batch = plain();
  batch.resources.walltime = 20min;
  const auto warning = [&](std::chrono::seconds lead) {
    batch.lead = lead;
    const std::string script = sbatch_script(batch, Profile());
    const size_t at = script.find("B:USR1@") + 7;
    return script.substr(at, script.find('\n', at) - at);
  };
  CHECK(warning(5min) == "300");
  CHECK(warning(0s) == "60");
  CHECK(warning(1h) == "630");  // half of 21 minutes
  batch.resources.walltime = 0s;
  CHECK(warning(5min) == "300");
  CHECK(warning(std::chrono::hours(48)) == "65000");
}

TEST_CASE("failing nodes are excluded beside those that the profile excludes", "[slurm]") {
  Batch batch = plain();
  Profile profile;
  CHECK(sbatch_script(batch, profile).find("--exclude") == std::string::npos);
  batch.excluded_nodes = {"n2", "n7"};
  CHECK(has(sbatch_script(batch, profile), "#SBATCH --exclude=n2,n7"));
  profile.batch_options["slurm"]["options"] = {"--exclude=n1", "--hint=x"};
  CHECK(has(sbatch_script(batch, profile), "#SBATCH --exclude=n1,n2,n7"));
}
