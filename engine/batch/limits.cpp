#include "engine/batch/limits.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/resources.h"
#include "engine/plan/places.h"

namespace dlflow {
namespace {

using std::chrono::seconds;

/// A limit and its owner: "cluster-profiles/alpha.yaml", "partition batch of alpha".
template <typename Value>
struct Limit {
  Value value{};  // 0: none
  std::string owner;
};

std::string name_of(const Profile& profile) {
  return profile.file.empty() ? "the profile " + profile.name : profile.file;
}

/// "4 h", "90 min", "1:30:10"
std::string in_words(seconds duration) {
  const int64_t count = duration.count();
  if (count % 86400 == 0) return std::to_string(count / 86400) + " d";
  if (count % 3600 == 0) return std::to_string(count / 3600) + " h";
  if (count % 60 == 0) return std::to_string(count / 60) + " min";
  return count < 60 ? std::to_string(count) + " s" : format_duration(duration);
}

std::string counted(int64_t count, const std::string& thing) {
  return format_count(uint64_t(count)) + " " + thing + (count == 1 ? "" : "s");
}

/// The violated limits, each reported once.
class Problems {
 public:
  explicit Problems(const Plan& plan) : plan_(plan) {}

  void add_of(const PlannedJob& job, const std::string& key, const std::string& problem,
              const std::string& advice) {
    const Step& step = plan_.workflow.steps[job.step];
    Location place = step.location;
    using Names = std::vector<std::string>;
    for (const std::string& name : key == "needs"  ? Names{key}
                                   : key == "pack" ? Names{"matrix", "matrix.pack"}
                                                   : Names{"resources", "resources." + key}) {
      const auto found = step.locations.find(name);
      if (found != step.locations.end()) place = found->second;
    }
    add(step.name + key,
        problem + " (" + plan_.workflow.file + ":" + std::to_string(place.line) + ":" +
            std::to_string(place.column) + ").",
        advice);
  }

  /// `what` is reported once, for the first of a step's elements.
  void add(const std::string& what, const std::string& problem, const std::string& advice) {
    if (!what.empty() && !told_.insert(what).second) return;
    problems_.push_back(problem + "\n       " + advice);
  }

  void finish() const {
    if (problems_.empty()) return;
    throw Error(Errc::InvalidInput, join(problems_, "\nerror: ") + "\nNothing was submitted.");
  }

 private:
  const Plan& plan_;
  std::set<std::string> told_;
  std::vector<std::string> problems_;
};

std::string quoted_step(const PlannedJob& job) {
  return "step '" + std::string(job.name.step()) + "'";
}

/// The limits of one place: of a class of nodes, or of all of the profile.
class PlaceCheck {
 public:
  /// \param owner  of the profile's own limits: "class gpu of cluster-profiles/alpha.yaml"
  PlaceCheck(const Profile& profile, std::string owner, const std::optional<ClusterLimits>& cluster,
             Problems& problems)
      : profile_(profile), owner_(std::move(owner)), problems_(problems) {
    if (cluster) read_cluster(*cluster);
    choose(walltime_, profile_.limits.walltime);
    choose(nodes_, profile_.limits.nodes);
    choose(cores_, profile_.node.cores);
    choose(memory_, profile_.node.memory_bytes);
    choose(gpus_, profile_.node.gpus);
    knows_gpus_ = knows_gpus_ || profile_.node.gpus > 0;
  }

  void check(const PlannedJob& job) {
    check_walltime(job);
    check_nodes(job);
    check_cores(job);
    check_memory(job);
    check_gpus(job);
  }

  /// \param together  the number of elements that share its task.
  void check_packed(const PlannedJob& job, size_t together) {
    if (together < 2) return;
    const seconds each = job.resources->walltime;
    const seconds asked = packed(*job.resources, together).walltime;
    const std::string packs = quoted_step(job) + " packs " + counted(int64_t(together), "element");
    if (each == seconds(0)) {
      problems_.add_of(job, "walltime", packs + " into a job, but gives no time for each",
                       "Add `resources: {walltime: 10m}`, the time of one element.");
    } else if (walltime_.value > seconds(0) && each <= walltime_.value && asked > walltime_.value) {
      const seconds more = packed(*job.resources, 2).walltime - each;
      const int64_t most = 1 + (walltime_.value - each) / more;
      problems_.add_of(job, "walltime",
                       walltime_.owner + " allows " + in_words(walltime_.value) + " per job, but " +
                           packs + " of " + in_words(each) + " into one, which takes " +
                           in_words(asked),
                       "Pack at most " + std::to_string(most) + " (`pack: " + std::to_string(most) +
                           "`), or ask for less time.");
    }
  }

 private:
  void read_cluster(const ClusterLimits& cluster) {
    const std::string& wanted = partition_of(profile_);
    for (const std::string& name : split(wanted, ',')) check_partition(cluster, name);
    const PartitionInfo* const partition = cluster.partition(wanted);
    if (partition == nullptr) return;  // several: SLURM takes the one that fits
    const std::string owner = "partition " + partition->name + " of " + cluster.cluster;
    walltime_ = {partition->max_walltime.value_or(seconds(0)), owner};
    nodes_ = {partition->max_nodes.value_or(partition->nodes), owner};
    cores_ = {partition->node.cores, owner};
    memory_ = {partition->node.memory_bytes, owner};
    gpus_ = {partition->node.gpus, owner};
    knows_gpus_ = partition->node.cores > 0;  // then no GPUs means that it has none
  }

  void check_partition(const ClusterLimits& cluster, const std::string& name) {
    if (cluster.partitions.empty() || cluster.partition(name) != nullptr) return;
    std::vector<std::string> known;
    for (const PartitionInfo& partition : cluster.partitions) known.push_back(partition.name);
    problems_.add("",
                  name.empty() ? cluster.cluster + " has no default partition, and " + owner_ +
                                     " does not name one."
                               : cluster.cluster + " has no partition '" + name + "', which " +
                                     owner_ + " names" + did_you_mean(name, known),
                  "Set " + partition_key(profile_) + " to one of " + join(known, ", ") + ".");
  }

  /// Takes the profile's own limit, if it is set and not above the cluster's.
  template <typename Value>
  void choose(Limit<Value>& limit, Value own) const {
    if (own != Value{} && (limit.value == Value{} || own <= limit.value)) {
      limit = {own, owner_};
    }
  }

  void check_walltime(const PlannedJob& job) {
    const seconds asked = job.resources->walltime;
    if (walltime_.value == seconds(0) || asked <= walltime_.value) return;
    problems_.add_of(
        job, "walltime",
        walltime_.owner + " allows " + in_words(walltime_.value) + " per job, but " +
            quoted_step(job) + " asks for " + in_words(asked),
        "Ask for less and let it requeue from checkpoints (`checkpoint: {every: 30m}`), or "
        "choose a partition that allows it.");
  }

  void check_nodes(const PlannedJob& job) {
    const int asked = num_nodes(*job.resources, profile_);
    if (nodes_.value == 0 || asked <= nodes_.value) return;
    problems_.add_of(job, "ranks",
                     nodes_.owner + " allows " + counted(nodes_.value, "node") + " per job, but " +
                         quoted_step(job) + " asks for " + std::to_string(asked) + ": " +
                         counted(job.resources->ranks, "rank") + ", " +
                         std::to_string(max_ranks_on_node(*job.resources, profile_)) + " on a node",
                     "Ask for fewer ranks, or set ranks_per_node higher in " + owner_ + ".");
  }

  std::string on_a_node(const Resources& resources) const {
    const int ranks = ranks_together(resources, profile_);
    return ranks == 1 ? "" : " for the " + std::to_string(ranks) + " ranks that share one";
  }

  void check_cores(const PlannedJob& job) {
    const int asked = ranks_together(*job.resources, profile_) * job.resources->cpus_per_rank;
    if (cores_.value == 0 || asked <= cores_.value) return;
    problems_.add_of(job, "cpus_per_rank",
                     cores_.owner + " offers " + counted(cores_.value, "core") +
                         " on a node, but " + quoted_step(job) + " asks for " +
                         std::to_string(asked) + on_a_node(*job.resources),
                     "Ask for fewer cpus_per_rank" + or_fewer_ranks(job));
  }

  void check_memory(const PlannedJob& job) {
    const auto together = uint64_t(ranks_together(*job.resources, profile_));
    const uint64_t asked = job.resources->memory_bytes / uint64_t(job.resources->ranks) * together;
    if (memory_.value == 0 || asked <= memory_.value) return;
    problems_.add_of(job, "memory",
                     memory_.owner + " offers " + format_size(memory_.value) +
                         " of memory on a node, but " + quoted_step(job) + " asks for " +
                         format_size(asked) + on_a_node(*job.resources),
                     "Ask for less memory" + or_fewer_ranks(job));
  }

  void check_gpus(const PlannedJob& job) {
    const int asked = ranks_together(*job.resources, profile_) * job.resources->gpus_per_rank;
    if (!knows_gpus_ || asked <= gpus_.value) return;
    problems_.add_of(
        job, "gpus_per_rank",
        gpus_.owner + " offers " + (gpus_.value == 0 ? "no GPU" : counted(gpus_.value, "GPU")) +
            " on a node, but " + quoted_step(job) + " asks for " + std::to_string(asked) +
            on_a_node(*job.resources),
        gpus_.value == 0
            ? "Choose a partition with GPUs: " + partition_key(profile_) + " in " + owner_ + "."
            : "Ask for fewer gpus_per_rank" + or_fewer_ranks(job));
  }

  std::string or_fewer_ranks(const PlannedJob& job) const {
    if (ranks_together(*job.resources, profile_) == 1)
      return ", or choose a partition with larger nodes.";
    return ", or set ranks_per_node lower in " + owner_ + ".";
  }

  const Profile& profile_;
  const std::string owner_;
  Problems& problems_;
  Limit<seconds> walltime_;
  Limit<int> nodes_;
  Limit<int> cores_;
  Limit<uint64_t> memory_;
  Limit<int> gpus_;
  bool knows_gpus_ = false;
};

void check_exclusive(const Plan& plan, const BatchSystem& system, Problems& problems) {
  if (system.has_exclusive_nodes()) return;
  for (const PlannedJob& job : plan.jobs) {
    if (job.action == Action::Reuse || !job.resources->exclusive) continue;
    problems.add_of(job, "exclusive",
                    std::string(system.name()) + " has no general request for whole nodes, but " +
                        quoted_step(job) + " asks for them",
                    "Define a class in the profile with the site's option, such as -l "
                    "exclusive=true, and name it with `on:`.");
  }
}

void check_packs(const Plan& plan, const BatchSystem& system, Problems& problems) {
  if (system.can_pack()) return;
  for (const PlannedJob& job : plan.jobs) {
    if (job.action == Action::Reuse || is_on_login_node(plan, job)) continue;
    if (plan.workflow.steps[job.step].matrix.pack < 2) continue;
    problems.add_of(job, "pack",
                    std::string(system.name()) +
                        " can only end a job as a whole, not one of its elements, but " +
                        quoted_step(job) + " packs several",
                    "Leave `pack` out: each element is then a task of a job array.");
  }
}

void check_places(const Plan& plan, const std::vector<PlannedBatch>& batches,
                  const std::optional<ClusterLimits>& cluster, Problems& problems) {
  std::map<std::optional<uint32_t>, PlaceCheck> checks;  // by place, of those that have jobs
  for (const PlannedJob& job : plan.jobs) {
    if (job.action == Action::Reuse || is_on_login_node(plan, job)) continue;
    const Profile& profile = profile_of(plan, job);
    const std::string owner =
        job.place ? "class " + plan.profile.classes[*job.place].name + " of " + name_of(profile)
                  : name_of(profile);
    checks.try_emplace(job.place, profile, owner, cluster, problems).first->second.check(job);
  }
  for (const PlannedBatch& batch : batches) {
    const PlannedJob& job = plan.jobs[batch.jobs.front()];
    const auto place = checks.find(job.place);
    if (place != checks.end()) place->second.check_packed(job, largest_task(batch));
  }
}

/// The batch system's rules for an array, with the size that the profile sets.
ArrayRules array_rules(const BatchSystem& system, const Profile& profile) {
  ArrayRules rules = system.array_rules();
  if (profile.limits.array_size > 0) rules.max_size = uint32_t(profile.limits.array_size);
  return rules;
}

/// The submissions of the whole plan.
BatchPlan all_batches(const Plan& plan, const ArrayRules& rules) {
  BatchPlan all;
  for (const PlannedJob& job : plan.jobs) {
    using enum Standing::Kind;
    all.standing.push_back({.kind = job.action == Action::Reuse ? Done : ToSubmit});
  }
  all.batches = plan_batches(plan, all.standing, rules);
  return all;
}

void check_dependencies(const Plan& plan, const BatchSystem& system,
                        const std::vector<PlannedBatch>& batches, const ArrayRules& rules,
                        Problems& problems) {
  Limit<int> limit = {int(rules.max_dependencies), std::string(system.name())};
  const int own = plan.profile.limits.dependencies;
  if (own > 0 && (limit.value == 0 || own <= limit.value)) limit = {own, name_of(plan.profile)};
  for (const PlannedBatch& batch : batches) {
    if (limit.value == 0 || int64_t(batch.waits_for.size()) <= limit.value) continue;
    const PlannedJob& job = plan.jobs[batch.jobs.front()];
    problems.add_of(
        job, "needs",
        limit.owner + " lets a job wait for " + counted(limit.value, "other") + ", but " +
            quoted_step(job) + " waits for " + format_count(batch.waits_for.size()),
        "Add intermediate steps that each collect some of them, or combine them into one matrix.");
  }
}

/// The smaller of two limits; 0 is none.
template <typename Value>
void tighten(Value& own, const Value& other) {
  if (own == Value{} || (other != Value{} && other < own)) own = other;
}

void tighten_to_partition(Profile& profile, const ClusterLimits& cluster) {
  const PartitionInfo* const partition = cluster.partition(partition_of(profile));
  if (partition == nullptr) return;
  tighten(profile.limits.walltime, partition->max_walltime.value_or(seconds(0)));
  tighten(profile.limits.nodes, partition->max_nodes.value_or(partition->nodes));
  tighten(profile.node.cores, partition->node.cores);
  tighten(profile.node.memory_bytes, partition->node.memory_bytes);
  tighten(profile.node.gpus, partition->node.gpus);
}

}  // namespace

Profile with_cluster_limits(Profile profile, const ClusterLimits& cluster) {
  tighten(profile.limits.array_size, cluster.max_array_size);
  tighten(profile.limits.jobs, cluster.max_job_count);
  for (NodeClass& node_class : profile.classes) {
    if (node_class.local) continue;
    Profile placed = with_class(profile, node_class);
    tighten_to_partition(placed, cluster);
    placed.node.gpus = std::min(placed.node.gpus, node_class.node.gpus);  // see misfit()
    node_class = as_class(placed, node_class.name, node_class.local);
  }
  tighten_to_partition(profile, cluster);
  return profile;
}

const std::vector<PlannedBatch>& batches_for(const Plan& plan,
                                             const std::vector<Standing>& standing,
                                             const BatchSystem& system, BatchPlan& planned) {
  if (planned.standing != standing)
    planned = {standing, plan_batches(plan, standing, array_rules(system, plan.profile))};
  return planned.batches;
}

BatchPlan check_limits(const Plan& plan, const BatchSystem& system,
                       const std::optional<ClusterLimits>& cluster) {
  Problems problems(plan);
  const ArrayRules rules =
      array_rules(system, cluster ? with_cluster_limits(plan.profile, *cluster) : plan.profile);
  BatchPlan planned = all_batches(plan, rules);
  check_places(plan, planned.batches, cluster, problems);
  check_exclusive(plan, system, problems);
  check_packs(plan, system, problems);
  check_dependencies(plan, system, planned.batches, rules, problems);
  problems.finish();
  return planned;
}

}  // namespace dlflow
