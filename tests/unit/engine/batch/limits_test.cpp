#include "engine/batch/limits.h"

#include "base/error.h"
#include "engine/slurm/tools.h"
#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

/// Returns the plan of `text` in big.yaml.
Plan limited_plan(const std::string& text, const Profile& profile) {
  Plan plan = test::fresh_plan(test::parsed(text), profile);
  plan.workflow.file = "big.yaml";
  return plan;
}

Profile alpha() {
  Profile profile;
  profile.name = "alpha";
  profile.file = "cluster-profiles/alpha.yaml";
  profile.scheduler = "slurm";
  return profile;
}

ClusterLimits cluster() {
  ClusterLimits limits;
  limits.cluster = "alpha";
  limits.max_array_size = 1001;
  limits.max_job_count = 10000;
  PartitionInfo batch;
  batch.name = "batch";
  batch.is_default = true;
  batch.max_walltime = 4h;
  batch.nodes = 2;
  batch.node = {4, uint64_t{8} << 30, 0};
  limits.partitions = {batch};
  return limits;
}

class WithoutWholeNodes : public SlurmTools {
 public:
  bool has_exclusive_nodes() const override { return false; }
};

std::string refusal(const Plan& plan, const std::optional<ClusterLimits>& limits = std::nullopt,
                    const BatchSystem& system = SlurmTools()) {
  try {
    check_limits(plan, system, limits);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string step(const std::string& resources) {
  return "name: w\nsteps:\n  train:\n    run: \"true\"\n    resources: {" + resources + "}\n";
}

}  // namespace

TEST_CASE("whole nodes are refused before submission if the batch system cannot give them") {
  const Plan plan = limited_plan(step("exclusive: true"), alpha());
  CHECK(refusal(plan).empty());
  CHECK_THAT(refusal(plan, std::nullopt, WithoutWholeNodes()),
             Catch::Contains("no general request for whole nodes, but step 'train' asks for them "
                             "(big.yaml:5:"));
  CHECK(refusal(limited_plan(step("exclusive: false"), alpha()), std::nullopt, WithoutWholeNodes())
            .empty());
}

TEST_CASE("a walltime above the profile's limit is refused with place and advice", "[slurm]") {
  Profile profile = alpha();
  profile.limits.walltime = 4h;
  CHECK(refusal(limited_plan(step("walltime: 4h"), profile)).empty());
  CHECK(
      refusal(limited_plan(step("walltime: 12h"), profile)) ==
      R"(cluster-profiles/alpha.yaml allows 4 h per job, but step 'train' asks for 12 h (big.yaml:5:27).
       Ask for less and let it requeue from checkpoints (`checkpoint: {every: 30m}`), or choose a partition that allows it.
Nothing was submitted.)");
}

TEST_CASE("a limit of the cluster is reported as such, and the lower limit applies", "[slurm]") {
  Profile profile = alpha();
  CHECK_THAT(refusal(limited_plan(step("walltime: 12h"), profile), cluster()),
             Catch::StartsWith("partition batch of alpha allows 4 h per job"));
  profile.limits.walltime = 1h;
  CHECK_THAT(refusal(limited_plan(step("walltime: 2h"), profile), cluster()),
             Catch::StartsWith("cluster-profiles/alpha.yaml allows 1 h per job"));
  profile.limits.walltime = 24h;
  CHECK_THAT(refusal(limited_plan(step("walltime: 12h"), profile), cluster()),
             Catch::StartsWith("partition batch of alpha allows 4 h per job"));
}

TEST_CASE("a job that fits no node is refused", "[slurm]") {
  Profile profile = alpha();
  profile.ranks_per_node = 2;
  profile.node = {4, uint64_t{8} << 30, 2};
  CHECK(refusal(limited_plan(step("ranks: 4, cpus_per_rank: 2, memory: 16GiB, gpus_per_rank: 1"),
                             profile))
            .empty());
  CHECK_THAT(
      refusal(limited_plan(step("ranks: 4, cpus_per_rank: 3"), profile)),
      Catch::StartsWith(
          "cluster-profiles/alpha.yaml offers 4 cores on a node, but step 'train' asks for 6 for "
          "the 2 ranks that share one (big.yaml:5:42).\n       Ask for fewer cpus_per_rank, "
          "or set ranks_per_node lower in cluster-profiles/alpha.yaml."));
  CHECK_THAT(
      refusal(limited_plan(step("memory: 9GiB"), profile)),
      Catch::StartsWith("cluster-profiles/alpha.yaml offers 8.0 GiB of memory on a node, but step "
                        "'train' asks for 9.0 GiB (big.yaml:5:25).\n       Ask for less "
                        "memory, or choose a partition with larger nodes."));
  CHECK_THAT(refusal(limited_plan(step("gpus_per_rank: 3"), profile)),
             Catch::Contains("offers 2 GPUs on a node, but step 'train' asks for 3 (big.yaml"));
  CHECK_THAT(refusal(limited_plan(step("gpus_per_rank: 1"), alpha()), cluster()),
             Catch::StartsWith("partition batch of alpha offers no GPU on a node"));
}

TEST_CASE("a job with more nodes than exist is refused", "[slurm]") {
  Profile profile = alpha();
  profile.ranks_per_node = 1;
  CHECK(refusal(limited_plan(step("ranks: 3"), profile)).empty());
  CHECK_THAT(refusal(limited_plan(step("ranks: 3"), profile), cluster()),
             Catch::StartsWith("partition batch of alpha allows 2 nodes per job, but step 'train' "
                               "asks for 3: 3 ranks, 1 on a node (big.yaml:5:24)."));
}

TEST_CASE("all problems are reported at once, and those of a matrix once", "[slurm]") {
  Profile profile = alpha();
  profile.batch_options["slurm"]["partition"] = "bach";
  profile.limits.walltime = 1h;
  const Plan plan = limited_plan(R"(
name: w
steps:
  train:
    matrix: {lr: [1, 2, 3]}
    run: "true"
    resources: {walltime: 90m}
  plot: {run: "true", resources: {walltime: 1d}}
)",
                                 profile);
  CHECK(
      refusal(plan, cluster()) ==
      R"(alpha has no partition 'bach', which cluster-profiles/alpha.yaml names; did you mean 'batch'?
       Set slurm.partition to one of batch.
error: cluster-profiles/alpha.yaml allows 1 h per job, but step 'train' asks for 90 min (big.yaml:7:27).
       Ask for less and let it requeue from checkpoints (`checkpoint: {every: 30m}`), or choose a partition that allows it.
error: cluster-profiles/alpha.yaml allows 1 h per job, but step 'plot' asks for 1 d (big.yaml:8:45).
       Ask for less and let it requeue from checkpoints (`checkpoint: {every: 30m}`), or choose a partition that allows it.
Nothing was submitted.)");
}

TEST_CASE("reused jobs are not counted", "[slurm]") {
  Profile profile = alpha();
  profile.limits.walltime = 1h;
  Plan plan = limited_plan(step("walltime: 12h"), profile);
  plan.jobs[0].action = Action::Reuse;
  CHECK(refusal(plan).empty());
}

TEST_CASE("limits that a profile omits or overstates are taken from the cluster", "[slurm]") {
  Profile profile = alpha();
  profile.limits.nodes = 1;
  profile.node.memory_bytes = uint64_t{64} << 30;
  const Profile filled = with_cluster_limits(profile, cluster());
  CHECK(filled.limits == Limits{4h, 1, 1001, 0, 10000, 0});
  CHECK(filled.node == NodeShape{4, uint64_t{8} << 30, 0});
  profile.batch_options["slurm"]["partition"] = "other";
  CHECK(with_cluster_limits(profile, cluster()).limits.walltime == 0s);
}

TEST_CASE("a step with too many dependencies is refused", "[slurm]") {
  const char* const text =
      "name: w\nsteps:\n  a: {run: \"true\"}\n  b: {run: \"true\"}\n"
      "  m: {run: \"true\", matrix: {n: [1, 2, 3]}}\n"
      "  best: {run: \"true\", needs: [a, b, m]}\n";
  Profile profile = alpha();
  profile.limits.dependencies = 3;  // an array is one
  CHECK(refusal(limited_plan(text, profile)).empty());
  profile.limits.dependencies = 2;
  CHECK(
      refusal(limited_plan(text, profile)) ==
      R"(cluster-profiles/alpha.yaml lets a job wait for 2 others, but step 'best' waits for 3 (big.yaml:6:30).
       Add intermediate steps that each collect some of them, or combine them into one matrix.
Nothing was submitted.)");
}

TEST_CASE("a limit is shown in the largest unit that it fills", "[slurm]") {
  const auto allowed = [](std::chrono::seconds limit) {
    Profile profile = alpha();
    profile.limits.walltime = limit;
    const std::string text = refusal(limited_plan(step("walltime: 30d"), profile));
    const size_t begin = text.find("allows ") + 7;
    return text.substr(begin, text.find(" per job") - begin);
  };
  CHECK(allowed(48h) == "2 d");
  CHECK(allowed(25h) == "25 h");
  CHECK(allowed(61min) == "61 min");
  CHECK(allowed(59s) == "59 s");
  CHECK(allowed(61s) == "1:01");
}

TEST_CASE("a job may ask for all that a node has, and no more", "[slurm]") {
  const auto refused = [](const std::string& resources) {
    Profile profile = alpha();
    profile.ranks_per_node = 2;
    profile.limits.nodes = 2;
    profile.node = {4, uint64_t{8} << 30, 2};
    return !refusal(limited_plan(step(resources), profile)).empty();
  };
  CHECK_FALSE(refused("ranks: 4"));
  CHECK(refused("ranks: 5"));
  CHECK_FALSE(refused("cpus_per_rank: 4"));
  CHECK(refused("cpus_per_rank: 5"));
  CHECK_FALSE(refused("memory: 8GiB"));
  CHECK(refused("memory: 8193MiB"));
  CHECK_FALSE(refused("ranks: 4, memory: 16GiB"));
  CHECK(refused("ranks: 4, memory: 16388MiB"));
  CHECK_FALSE(refused("ranks: 2, gpus_per_rank: 1"));
  CHECK(refused("ranks: 2, gpus_per_rank: 2"));
}

TEST_CASE("ranks without a fixed layout in SLURM are checked one by one", "[slurm]") {
  Profile profile = alpha();  // has no ranks per node
  profile.node = {4, uint64_t{8} << 30, 1};
  CHECK(
      refusal(limited_plan(step("ranks: 8, cpus_per_rank: 4, gpus_per_rank: 1"), profile)).empty());
  CHECK_THAT(refusal(limited_plan(step("ranks: 8, cpus_per_rank: 5"), profile)),
             Catch::Contains("step 'train' asks for 5 (big.yaml"));
}

TEST_CASE("nothing is refused while GPUs or nodes are unknown", "[slurm]") {
  CHECK(
      refusal(limited_plan(step("gpus_per_rank: 9, cpus_per_rank: 99, memory: 9TiB, walltime: 99d"),
                           alpha()))
          .empty());
  ClusterLimits unknown = cluster();
  unknown.partitions[0].node = {};
  unknown.partitions[0].max_walltime.reset();
  unknown.partitions[0].nodes = 0;
  CHECK(
      refusal(limited_plan(step("gpus_per_rank: 9, cpus_per_rank: 99, memory: 9TiB, walltime: 99d"),
                           alpha()),
              unknown)
          .empty());
}

TEST_CASE("SLURM chooses among several partitions, but each must exist", "[slurm]") {
  Profile profile = alpha();
  profile.batch_options["slurm"]["partition"] = "batch,bach";
  CHECK_THAT(refusal(limited_plan(step("walltime: 12h"), profile), cluster()),
             Catch::StartsWith("alpha has no partition 'bach'"));
  profile.batch_options["slurm"]["partition"] = "batch,other";
  ClusterLimits two = cluster();
  two.partitions.push_back(two.partitions[0]);
  two.partitions[1].name = "other";
  CHECK(refusal(limited_plan(step("walltime: 12h"), profile), two).empty());
  two.partitions.clear();  // without an answer of sinfo
  CHECK(refusal(limited_plan(step("walltime: 12h"), profile), two).empty());
}

TEST_CASE("a cluster without a default partition needs a named one", "[slurm]") {
  ClusterLimits without = cluster();
  without.partitions[0].is_default = false;
  Profile profile = alpha();
  CHECK_THAT(
      refusal(limited_plan(step("ranks: 1"), profile), without),
      Catch::StartsWith(
          "alpha has no default partition, and cluster-profiles/alpha.yaml does not name one."));
  profile.file.clear();
  CHECK_THAT(refusal(limited_plan(step("ranks: 1"), profile), without),
             Catch::Contains("and the profile alpha does not name one."));
}

TEST_CASE("each class has its own limits, and those of its partition", "[slurm]") {
  Profile profile = alpha();
  NodeClass small = as_class(profile, "small", false);
  small.limits.walltime = 1h;
  NodeClass large = as_class(profile, "large", false);
  large.batch_options["slurm"]["partition"] = "long";
  profile.classes = {small, large};
  ClusterLimits limits = cluster();
  PartitionInfo other = limits.partitions[0];
  other.name = "long";
  other.is_default = false;
  other.max_walltime = 48h;
  other.node.gpus = 8;
  limits.partitions.push_back(other);

  const Profile limited = with_cluster_limits(profile, limits);
  CHECK(limited.limits.walltime == 4h);
  CHECK(limited.classes[0].limits.walltime == 1h);
  CHECK(limited.classes[1].limits.walltime == 48h);
  CHECK(limited.classes[1].node.cores == 4);
  CHECK(limited.classes[1].node.gpus == 0);  // only its own values

  limits.partitions[0].max_walltime.reset();
  const Profile without = with_cluster_limits(profile, limits);
  CHECK(without.limits.walltime == profile.limits.walltime);
  CHECK(without.classes[0].limits.walltime == 1h);

  const auto named = [&](const std::string& on, const std::string& walltime) {
    return refusal(limited_plan("name: w\nsteps:\n  a: {run: x, on: " + on +
                                    ", resources: {walltime: " + walltime + "}}\n",
                                profile),
                   limits);
  };
  CHECK(named("large", "12h").empty());
  CHECK_THAT(named("small", "2h"),
             Catch::StartsWith("class small of cluster-profiles/alpha.yaml allows 1 h per job"));
  CHECK_THAT(named("large", "60h"),
             Catch::StartsWith("partition long of alpha allows 2 d per job"));
}

namespace {

class WithoutPacks : public SlurmTools {
 public:
  bool can_pack() const override { return false; }
};

std::string packed_step(int pack, const std::string& resources) {
  return "name: w\nsteps:\n  train:\n    run: \"true\"\n    matrix: {n: [1, 2, 3, 4], pack: " +
         std::to_string(pack) + "}\n    resources: {" + resources + "}\n";
}

}  // namespace

TEST_CASE("the times of all elements of a task and of their records add up", "[slurm]") {
  Profile profile = alpha();
  profile.limits.walltime = 30min;
  CHECK(refusal(limited_plan(packed_step(2, "walltime: 14m"), profile)).empty());
  CHECK(
      refusal(limited_plan(packed_step(4, "walltime: 10m"), profile)) ==
      R"(cluster-profiles/alpha.yaml allows 30 min per job, but step 'train' packs 4 elements of 10 min into one, which takes 41:30 (big.yaml:6:27).
       Pack at most 2 (`pack: 2`), or ask for less time.
Nothing was submitted.)");
  CHECK_THAT(refusal(limited_plan(packed_step(4, "walltime: 10h"), profile)),
             Catch::Contains("allows 30 min per job, but step 'train' asks for 10 h") &&
                 !Catch::Contains("packs"));
  CHECK(refusal(limited_plan(packed_step(20, "walltime: 1m"), profile)).empty());  // the task has 4
}

TEST_CASE("packed elements need a walltime for each", "[slurm]") {
  CHECK_THAT(refusal(limited_plan(packed_step(2, "ranks: 1"), alpha())),
             Catch::StartsWith("step 'train' packs 2 elements into a job, but gives no time for "
                               "each (big.yaml:6:16).\n       Add `resources: "
                               "{walltime: 10m}`, the time of one element."));
  CHECK(refusal(limited_plan(packed_step(1, "ranks: 1"), alpha())).empty());
}

TEST_CASE("a batch system that can only end whole jobs refuses packed ones", "[slurm]") {
  CHECK_THAT(
      refusal(limited_plan(packed_step(2, "walltime: 1m"), alpha()), std::nullopt, WithoutPacks()),
      Catch::Contains(
          "SLURM can only end a job as a whole, not one of its elements, but step 'train' "
          "packs several (big.yaml:5:37)") &&
          Catch::Contains("Leave `pack` out"));
}

TEST_CASE("users see the walltime as they wrote it, if the cluster allows it") {
  Profile profile = alpha();
  Resources resources;
  resources.walltime = 2min;
  CHECK(time_limit(resources, profile) == 3min);  // 30 s to record, rounded up to minutes
  CHECK(own_limit(3min, resources, profile) == 2min);
  CHECK(own_limit(5min, resources, profile) == 5min);  // raised, or summed over a pack
  profile.limits.walltime = 90s;
  CHECK(own_limit(1min, resources, profile) == 1min);  // the profile cut it
  resources.walltime = 0s;
  CHECK(own_limit(0s, resources, profile) == 0s);
}
