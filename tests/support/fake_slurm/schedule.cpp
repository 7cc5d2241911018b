#include "tests/support/fake_slurm/schedule.h"

#include <algorithm>
#include <limits>
#include <set>

namespace dlflow::fake_slurm {
namespace {

using Mark = Dependency::Mark;
using Type = Dependency::Type;

constexpr Seconds kNever = std::numeric_limits<Seconds>::max();

/// A parent that is unknown to slurmctld counts as satisfied, even a purged one that failed
/// (measured on 22.05).
Mark look(World& world, const Task& task, const Dependency& dependency) {
  std::vector<const Task*> parents;
  const Task* corresponding = nullptr;
  if (const Job* parent = find_job(world, dependency.job)) {
    for (const Task& p : parent->tasks) {
      if (p.purged) continue;
      if (dependency.task == kAllTasks || dependency.task == p.index) parents.push_back(&p);
      if (task.index >= 0 && p.index == task.index) corresponding = &p;
    }
  }
  if (dependency.type == Type::AfterCorr && corresponding != nullptr) parents = {corresponding};
  const auto all = [&](const auto& holds) {
    return std::all_of(parents.begin(), parents.end(), holds);
  };
  if (!all([](const Task* p) { return is_final(p->state); })) return Mark::Unfulfilled;
  const bool succeeded = all([](const Task* p) { return p->state == State::Completed; });
  return succeeded || dependency.type == Type::AfterAny ? Mark::Fulfilled : Mark::Failed;
}

/// Updates the marks of a pending task, and returns their combination.
Mark check_dependencies(World& world, Task& task) {
  bool all = true;
  bool failed = false;
  for (Dependency& dependency : task.dependencies) {
    if (dependency.mark == Mark::Unfulfilled) dependency.mark = look(world, task, dependency);
    all = all && dependency.mark == Mark::Fulfilled;
    failed = failed || dependency.mark == Mark::Failed;
  }
  if (all) task.dependencies.clear();  // for good: slurmctld also clears its list
  return all ? Mark::Fulfilled : failed ? Mark::Failed : Mark::Unfulfilled;
}

Seconds limit_of(const Job& job, const Task& task) {
  const int minutes = limit_minutes(job.request);
  return minutes == 0 ? kNever : task.started + minutes * 60;
}

Seconds signal_time(const Job& job, const Task& task) {
  const Seconds limit = limit_of(job, task);
  if (job.request.signal == 0 || task.signalled || limit == kNever) return kNever;
  return std::max(task.started, limit - job.request.signal_lead);
}

/// Applies a running task's time limit and the signal before it when they are due.
void end_due(World& world, Found found) {
  if (world.now >= limit_of(*found.job, *found.task)) {
    end(world, found, State::Timeout, 0, 0, true);
  } else if (world.now >= signal_time(*found.job, *found.task)) {
    found.task->signalled = true;
    send_signal(world, found, found.job->request.signal);
  }
}

/// The reason why a pending task cannot start even on free nodes, or "".
std::string obstacle(World& world, Found found) {
  Task& task = *found.task;
  const Mark mark = check_dependencies(world, task);
  if (mark == Mark::Failed) {
    if (found.job->request.kill_on_invalid_dependency) cancel(world, found, -1);
    return "DependencyNeverSatisfied";
  }
  if (mark == Mark::Unfulfilled) return "Dependency";
  if (task.begin > world.now) return "BeginTime";
  if (task.eligible == 0) task.eligible = world.now;
  const auto running = std::count_if(found.job->tasks.begin(), found.job->tasks.end(),
                                     [](const Task& t) { return t.state == State::Running; });
  const int throttle = found.job->request.throttle;
  return throttle > 0 && running >= throttle ? "JobArrayTaskLimit" : "";
}

/// Starts a pending task if possible; in partitions in `full`, a task already waits for nodes.
void start_if_possible(World& world, Found found, std::set<std::string>& full) {
  Task& task = *found.task;
  const std::string why_not = obstacle(world, found);
  if (is_final(task.state)) return;
  task.reason = why_not;
  if (!why_not.empty()) return;
  const std::string& partition = found.job->request.partition;
  if (full.contains(partition)) {
    task.reason = "Priority";
    return;
  }
  task.shares = place(world, found.job->request, false);
  if (task.shares.empty()) {
    task.reason = "Resources";
    full.insert(partition);
    return;
  }
  split_off(world, found);
  task.state = State::Running;
  task.reason = "None";
  task.started = world.now;
  world.effects.push_back({Effect::Kind::Start, found.job->id, task.index, 0});
}

template <typename Action>
void for_each_task(World& world, const Action& action) {
  for (Job& job : world.jobs) {
    for (Task& task : job.tasks) {
      if (!task.purged) action(Found{&job, &task});
    }
  }
}

/// The next time at which schedule() changes something.
Seconds next_event(World& world) {
  Seconds next = kNever;
  const auto consider = [&](Seconds at) {
    if (at > world.now) next = std::min(next, at);
  };
  for_each_task(world, [&](Found found) {
    const Task& task = *found.task;
    if (is_final(task.state)) consider(task.ended + kMinJobAge);
    if (task.state == State::Pending) consider(task.begin);
    if (task.state != State::Running) return;
    consider(limit_of(*found.job, task));
    consider(signal_time(*found.job, task));
  });
  return next;
}

/// Ends and starts tasks that are due; returns whether any task changed its state.
bool move_on(World& world) {
  bool changed = false;
  const auto watch = [&](Found found, const auto& action) {
    const State before = found.task->state;
    action();
    changed = changed || found.task->state != before;
  };
  for_each_task(world, [&](Found found) {
    if (found.task->state == State::Running) watch(found, [&] { end_due(world, found); });
  });
  std::set<std::string> full;
  for_each_task(world, [&](Found found) {
    if (found.task->state != State::Pending) return;
    watch(found, [&] { start_if_possible(world, found, full); });
  });
  return changed;
}

}  // namespace

void arrive(World& world) {
  auto late = std::move(world.late);
  world.late.clear();
  for (Late& submission : late) {
    if (submission.calls > 0) {
      world.late.push_back(std::move(submission));
      continue;
    }
    try {
      submit(world, submission.request);
    } catch (const Refused&) {  // no caller is left to report it to
    }
  }
}

void schedule(World& world) {
  arrive(world);
  while (move_on(world)) {  // an end lets other tasks start, which may end in the same second
  }
  for_each_task(world, [&](Found found) {
    const bool old = world.now >= found.task->ended + kMinJobAge;
    if (old && is_final(found.task->state)) found.task->purged = true;
  });
}

void look_again(World& world) {
  for_each_task(world, [&](Found found) {
    if (found.task->state != State::Pending) return;
    const std::string why_not = obstacle(world, found);
    const bool waits = found.task->reason == "Resources" || found.task->reason == "Priority";
    if (is_final(found.task->state) || (why_not.empty() && waits)) return;
    found.task->reason = why_not.empty() ? "None" : why_not;
  });
}

void advance(World& world, Seconds seconds) {
  const Seconds until = world.now + seconds;
  schedule(world);
  for (Seconds next = next_event(world); next <= until; next = next_event(world)) {
    world.now = next;
    schedule(world);
  }
  world.now = until;
  schedule(world);
}

namespace {

std::vector<int> free_cpus(const World& world) {
  std::vector<int> free(size_t(world.config.nodes), world.config.cpus);
  for (const Job& job : world.jobs) {
    for (const Task& task : job.tasks) {
      if (task.state != State::Running) continue;
      for (const Share& share : task.shares) {
        for (int i = 0; i < world.config.nodes; ++i) {
          if (share.node == node_name(world.config, i)) free[size_t(i)] -= share.cpus;
        }
      }
    }
  }
  return free;
}

/// Places the tasks on `num_nodes` nodes, at least one on each; returns nothing if they do not fit.
std::vector<Share> place_on(const World& world, const Request& request,
                            const std::vector<int>& free, int num_nodes) {
  std::vector<Share> shares;
  int tasks = std::max(request.tasks, num_nodes);
  for (int i = 0; i < world.config.nodes && int(shares.size()) < num_nodes; ++i) {
    const int others = num_nodes - int(shares.size()) - 1;  // a task for each of them
    int here = std::min(tasks - others, free[size_t(i)] / request.cpus_per_task);
    if (request.tasks_per_node > 0) here = std::min(here, request.tasks_per_node);
    if (here <= 0) continue;
    shares.push_back({node_name(world.config, i), here * request.cpus_per_task});
    tasks -= here;
  }
  const bool complete = tasks == 0 && int(shares.size()) == num_nodes;
  return complete ? shares : std::vector<Share>();
}

}  // namespace

std::string node_name(const Config& config, int number) {
  return config.cluster + "-n" + std::to_string(number + 1);
}

// First fit by cores only: SLURM's placement differs, but accepts the same requests.
std::vector<Share> place(const World& world, const Request& request, bool empty_cluster) {
  const std::vector<int> free =
      empty_cluster ? std::vector<int>(size_t(world.config.nodes), world.config.cpus)
                    : free_cpus(world);
  if (request.nodes > 0) return place_on(world, request, free, request.nodes);
  for (int num_nodes = 1; num_nodes <= world.config.nodes; ++num_nodes) {
    auto shares = place_on(world, request, free, num_nodes);
    if (!shares.empty()) return shares;
  }
  return {};
}

}  // namespace dlflow::fake_slurm
