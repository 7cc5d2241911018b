#include "engine/batch/batches.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/batch/batch_job.h"
#include "engine/decide/needed_inputs.h"

namespace dlflow {
namespace {

/// Sorts the list and removes duplicates.
void keep_once(std::vector<PlannedDependency>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

class BatchPlanner {
 public:
  BatchPlanner(const Plan& plan, const std::vector<Standing>& standing, const ArrayRules& rules)
      : plan_(plan),
        standing_(standing),
        rules_(rules),
        max_array_size_(std::max<uint32_t>(1, rules.max_size)),
        batch_of_(plan.jobs.size(), kNone),
        precedes_always_(steps_before_always(plan.workflow)) {}

  std::vector<PlannedBatch> plan() {
    for (uint32_t first = 0; first < plan_.jobs.size();) {
      uint32_t end = first;
      while (end < plan_.jobs.size() && plan_.jobs[end].step == plan_.jobs[first].step) ++end;
      plan_step({first, end - first});
      first = end;
    }
    if (rules_.same_tasks) widen_links();
    return std::move(batches_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// The common properties of the tasks of one array.
  using Key = std::tuple<uint32_t, std::vector<PlannedDependency>, std::string>;

  /// The batch that is being filled for a key.
  struct Group {
    uint32_t batch = kNone;
    size_t text = 0;                          // the approximate length of its task list
    uint32_t last = kNone, previous = kNone;  // of its tasks
  };

  const Step& step_of(uint32_t job) const { return plan_.workflow.steps[plan_.jobs[job].step]; }

  bool waits_for_end(uint32_t job, uint32_t parent) const {
    return dlflow::waits_for_end(step_of(job), step_of(parent));
  }

  uint32_t pack_of(uint32_t job) const { return uint32_t(step_of(job).matrix.pack); }

  /// The task's number in its step, whatever the number of arrays.
  uint32_t place_of(uint32_t job) const { return plan_.jobs[job].element / pack_of(job); }
  uint32_t task_of(uint32_t job) const { return place_of(job) % max_array_size_; }

  /// The growth of an array's task list by one more task, at most.
  size_t text_of(const Group& group, uint32_t task) const {
    const bool in_range = group.last + 1 == task && group.previous + 2 == task;
    return in_range ? 0 : std::to_string(max_array_size_).size() + 1;
  }

  /// Whether the array of `group` can have this task, too.
  bool may_join(const Group& group, uint32_t task) const {
    constexpr size_t kThrottle = 16;  // "%20" comes behind the list
    if (rules_.max_text > 0 && group.text + kThrottle > rules_.max_text) return false;
    return rules_.gaps || group.last == kNone || group.last + 1 == task;
  }

  /// The jobs in `first` to `end` that share a task with `first`, itself included.
  std::vector<uint32_t> sharers(uint32_t first, uint32_t end) const {
    std::vector<uint32_t> jobs;
    for (uint32_t job = first; job < end && place_of(job) == place_of(first); ++job) {
      const bool is_new =
          standing_[job].kind == Standing::Kind::ToSubmit && batch_of_[job] == kNone;
      if (is_new && (job == first || share_a_task(plan_, first, job))) jobs.push_back(job);
    }
    return jobs;
  }

  void plan_step(JobRange jobs) {
    const size_t first_batch = batches_.size();
    const uint32_t end = jobs.first + jobs.count;
    std::map<Key, Group> groups;
    for (uint32_t job = jobs.first; job < end; ++job) {
      if (standing_[job].kind != Standing::Kind::ToSubmit || batch_of_[job] != kNone) continue;
      const std::vector<uint32_t> together = sharers(job, end);
      Key key{place_of(job) / max_array_size_, dependencies_of(together),
              to_json(*plan_.jobs[job].resources).dump()};
      Group& group = groups[key];
      if (group.batch != kNone) group.text += text_of(group, task_of(job));
      if (group.batch == kNone || !may_join(group, task_of(job))) {
        group = {.batch = uint32_t(batches_.size()), .text = text_of({}, task_of(job))};
        batches_.push_back({.step = plan_.jobs[job].step,
                            .is_array = !plan_.jobs[job].name.element().empty(),
                            .waits_for = std::get<1>(key),
                            .leaves_if_hopeless = precedes_always_[plan_.jobs[job].step]});
      }
      PlannedBatch& batch = batches_[group.batch];
      group.previous = std::exchange(group.last, task_of(job));
      for (const uint32_t one : together) {
        batch.jobs.push_back(one);
        if (batch.is_array) batch.tasks.push_back(task_of(one));
        batch_of_[one] = group.batch;
      }
    }
    on_all_.clear();
    share_places(jobs, first_batch);
  }

  /// If a batch system cannot pair the tasks of two arrays, one waits for all of the other.
  void widen_links() {
    for (PlannedBatch& batch : batches_) {
      for (PlannedDependency& dependency : batch.waits_for) {
        const bool pairs = batches_[dependency.batch].tasks == batch.tasks;
        if (dependency.kind == PlannedDependency::Kind::SameTask && !pairs)
          dependency.kind = PlannedDependency::Kind::Success;
      }
      keep_once(batch.waits_for);
    }
  }

  void share_places(JobRange jobs, size_t first) {
    const int most = plan_.workflow.steps[plan_.jobs[jobs.first].step].matrix.max_parallel;
    const size_t count = batches_.size() - first;
    if (most == 0 || count == 0) return;
    const std::vector<PlannedDependency> before = dependencies_on_what_is_there(jobs);
    const size_t lanes = std::min(count, size_t(most));
    for (size_t i = 0; i < count; ++i) {
      PlannedBatch& batch = batches_[first + i];
      batch.max_parallel = int(size_t(most) / lanes + (i % lanes < size_t(most) % lanes ? 1 : 0));
      if (i >= lanes) {
        batch.waits_for.push_back(
            {.kind = PlannedDependency::Kind::End, .batch = uint32_t(first + i - lanes)});
      } else {
        batch.waits_for.insert(batch.waits_for.end(), before.begin(), before.end());
      }
    }
  }

  /// One dependency for an array, unless some of its tasks may stay in the queue forever.
  std::vector<PlannedDependency> dependencies_on_what_is_there(JobRange jobs) const {
    std::set<std::string_view> stuck;
    for (uint32_t job = jobs.first; job < jobs.first + jobs.count; ++job) {
      const Standing& standing = standing_[job];
      if (standing.kind == Standing::Kind::LeftOut) stuck.insert(array_id(standing.id));
    }
    std::set<std::string> ids;
    for (uint32_t job = jobs.first; job < jobs.first + jobs.count; ++job) {
      const Standing& standing = standing_[job];
      if (standing.kind != Standing::Kind::Waiting) continue;
      const std::string_view array = array_id(standing.id);
      ids.emplace(stuck.contains(array) ? standing.id : array);
    }
    std::vector<PlannedDependency> dependencies;
    for (const std::string& id : ids)
      dependencies.push_back({.kind = PlannedDependency::Kind::End, .id = id});
    return dependencies;
  }

  /// The dependencies of jobs that share a task.
  std::vector<PlannedDependency> dependencies_of(const std::vector<uint32_t>& together) {
    if (together.size() == 1) return dependencies_of(together.front());
    std::map<PlannedDependency, size_t> needed;  // the number of jobs that need each
    for (const uint32_t job : together) {
      for (PlannedDependency& dependency : dependencies_of(job)) ++needed[std::move(dependency)];
    }
    std::vector<PlannedDependency> dependencies;
    for (const auto& [dependency, by] : needed) {
      dependencies.push_back(by == together.size() ? dependency : on_end(dependency));
    }
    keep_once(dependencies);
    return dependencies;
  }

  /// The same for any end. A task of the same number succeeds once all jobs that share it have
  /// ended.
  static PlannedDependency on_end(PlannedDependency dependency) {
    using Kind = PlannedDependency::Kind;
    if (dependency.kind == Kind::Success) dependency.kind = Kind::End;
    return dependency;
  }

  std::vector<PlannedDependency> dependencies_of(uint32_t job) {
    std::vector<PlannedDependency> dependencies;
    for (const JobRange& range : plan_.graph.parents(job)) {
      if (range.count == 1) {
        if (auto dependency = dependency_on(range.first, job))
          dependencies.push_back(std::move(*dependency));
        continue;
      }
      const auto [known, is_new] = on_all_.try_emplace({range.first, range.count});
      if (is_new) known->second = dependencies_on_all(range, job);
      dependencies.insert(dependencies.end(), known->second.begin(), known->second.end());
    }
    keep_once(dependencies);
    return dependencies;
  }

  std::optional<PlannedDependency> dependency_on(uint32_t parent, uint32_t job) const {
    if (standing_[parent].kind == Standing::Kind::Waiting) return on_waiting(parent, job);
    const uint32_t batch = batch_of_[parent];
    if (batch == kNone) return std::nullopt;
    if (batches_[batch].jobs.size() == 1) return on_batch(batch, parent, job);
    // No batch system can pair tasks by completion. A job that it ends itself has no status of 0,
    // even if it may fail.
    const bool pairs = is_its_own(parent, job) && task_of(parent) == task_of(job) &&
                       pack_of(parent) == pack_of(job);
    if (pairs && !waits_for_end(job, parent))
      return PlannedDependency{.kind = PlannedDependency::Kind::SameTask, .batch = batch};
    return on_task(parent, job);
  }

  Dependency::Kind kind_of(uint32_t parent, uint32_t job) const {
    return waits_for_end(job, parent) ? Dependency::Kind::End : Dependency::Kind::Success;
  }

  PlannedDependency on_waiting(uint32_t parent, uint32_t job) const {
    return {.kind = kind_of(parent, job), .id = standing_[parent].id};
  }

  PlannedDependency on_batch(uint32_t batch, uint32_t parent, uint32_t job) const {
    return {.kind = kind_of(parent, job), .batch = batch};
  }

  /// Whether both are the same element of a matrix; then no other job depends on this parent. Jobs
  /// that share a parent should be in one array, with the same dependency.
  bool is_its_own(uint32_t parent, uint32_t job) const {
    const Json& element = element_of(plan_, job);
    return !element.empty() && element == element_of(plan_, parent);
  }

  PlannedDependency on_task(uint32_t parent, uint32_t job) const {
    return {.kind = kind_of(parent, job), .batch = batch_of_[parent], .task = task_of(parent)};
  }

  /// The dependencies on several jobs of a step: each batch as a whole if it has no other jobs,
  /// else the tasks of these jobs one by one.
  std::vector<PlannedDependency> dependencies_on_all(JobRange range, uint32_t job) const {
    std::vector<PlannedDependency> dependencies;
    for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
      if (standing_[parent].kind == Standing::Kind::Waiting) {
        dependencies.push_back(on_waiting(parent, job));
      } else if (batch_of_[parent] != kNone) {
        const std::vector<uint32_t>& jobs = batches_[batch_of_[parent]].jobs;
        const bool all = jobs.front() >= range.first && jobs.back() < range.first + range.count;
        dependencies.push_back(all ? on_batch(batch_of_[parent], parent, job)
                                   : on_task(parent, job));
      }
    }
    keep_once(dependencies);
    return dependencies;
  }

  const Plan& plan_;
  const std::vector<Standing>& standing_;
  const ArrayRules& rules_;
  const uint32_t max_array_size_;
  std::vector<PlannedBatch> batches_;
  std::vector<uint32_t> batch_of_;     // by job
  std::vector<bool> precedes_always_;  // by step
  /// For the present step: dependencies on all jobs of a range, by its first job and its size.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<PlannedDependency>> on_all_;
};

/// \param ids  of the batches, by their places
Dependency dependency_of(const PlannedDependency& planned, const std::vector<std::string>& ids) {
  if (!planned.id.empty()) return {planned.kind, planned.id};
  const std::string task = planned.task ? "_" + std::to_string(*planned.task) : "";
  return {planned.kind, ids[planned.batch] + task};
}

}  // namespace

std::vector<uint32_t> distinct_tasks(const PlannedBatch& batch) {
  std::vector<uint32_t> tasks = batch.tasks;
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  return tasks;
}

size_t num_tasks(const PlannedBatch& batch) {
  return batch.is_array ? distinct_tasks(batch).size() : batch.jobs.size();
}

size_t largest_task(const PlannedBatch& batch) {
  size_t largest = 1;
  size_t size = 1;
  for (size_t i = 1; i < batch.tasks.size(); ++i) {
    size = batch.tasks[i] == batch.tasks[i - 1] ? size + 1 : 1;
    largest = std::max(largest, size);
  }
  return largest;
}

bool share_a_task(const Plan& plan, uint32_t a, uint32_t b) {
  const PlannedJob& one = plan.jobs[a];
  const PlannedJob& other = plan.jobs[b];
  const auto pack = uint32_t(plan.workflow.steps[one.step].matrix.pack);
  return pack > 1 && one.step == other.step && one.element / pack == other.element / pack &&
         one.place == other.place && *one.resources == *other.resources;
}

std::vector<PlannedBatch> plan_batches(const Plan& plan, const std::vector<Standing>& standing,
                                       const ArrayRules& rules) {
  return BatchPlanner(plan, standing, rules).plan();
}

std::vector<Dependency> dependencies(const std::vector<PlannedDependency>& planned,
                                     const std::vector<std::string>& ids) {
  std::vector<Dependency> result;
  for (const PlannedDependency& one : planned) result.push_back(dependency_of(one, ids));
  return result;
}

}  // namespace dlflow
