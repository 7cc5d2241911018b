#include "tests/support/fake_slurm/schedule.h"

#include <fnmatch.h>

#include <algorithm>
#include <limits>
#include <set>

namespace dlflow::fake_slurm {
namespace {

using Mark = Dependency::Mark;
using Type = Dependency::Type;

constexpr Seconds kNever = std::numeric_limits<Seconds>::max();

/// What the state of one parent means for a dependency of `type`.
Mark judge(Type type, bool over, bool succeeded) {
  if (!over) return Mark::Unfulfilled;
  if (type == Type::AfterAny) return Mark::Fulfilled;
  const bool wanted = type == Type::AfterNotOk ? !succeeded : succeeded;
  return wanted ? Mark::Fulfilled : Mark::Failed;
}

bool has_started(const World& world, const Task& task, int minutes) {
  if (task.state == State::Pending) return false;
  return minutes == 0 || world.now - task.started >= minutes * 60;
}

bool singleton_free(const World& world, const Job& job) {
  for (const Job& other : world.jobs) {
    if (&other == &job) return true;  // what was submitted later waits for this one
    if (other.request.name != job.request.name || other.request.user != job.request.user) continue;
    for (const Task& task : other.tasks) {
      if (!task.purged && !is_over(world, task)) return false;
    }
  }
  return true;
}

const Task* by_raw_id(const World& world, JobId raw_id) {
  for (const Job& job : world.jobs) {
    for (const Task& task : job.tasks) {
      if (task.raw_id == raw_id && !task.purged) return &task;
    }
  }
  return nullptr;
}

/// A parent that slurmctld does not know, or no longer, counts as satisfied: also a purged one that
/// failed (measured on 22.05).
Mark look(World& world, const Job& job, const Task& task, const Dependency& dependency) {
  if (dependency.type == Type::Singleton) {
    return singleton_free(world, job) ? Mark::Fulfilled : Mark::Unfulfilled;
  }
  std::vector<const Task*> parents;
  const Task* corresponding = nullptr;
  if (const Job* parent = find_job(world, dependency.job)) {
    for (const Task& p : parent->tasks) {
      if (p.purged) continue;
      if (dependency.task == kAllTasks || dependency.task == p.index) parents.push_back(&p);
      if (task.index >= 0 && p.index == task.index) corresponding = &p;
    }
  } else if (const Task* p = by_raw_id(world, dependency.job)) {
    parents.push_back(p);
  }
  if (dependency.type == Type::AfterCorr && corresponding != nullptr) parents = {corresponding};
  if (parents.empty()) return Mark::Fulfilled;
  const auto all = [&](const auto& holds) {
    return std::all_of(parents.begin(), parents.end(), holds);
  };
  if (dependency.type == Type::After) {
    const bool started =
        all([&](const Task* p) { return has_started(world, *p, dependency.minutes); });
    return started ? Mark::Fulfilled : Mark::Unfulfilled;
  }
  return judge(dependency.type, all([&](const Task* p) { return is_over(world, *p); }),
               all([](const Task* p) { return p->state == State::Completed; }));
}

/// Brings the marks of a pending task up to date, and says whether all together hold.
Mark check_dependencies(World& world, const Job& job, Task& task) {
  if (task.dependencies.empty()) return Mark::Fulfilled;
  const bool any = task.dependencies.front().any;
  size_t fulfilled = 0;
  size_t failed = 0;
  for (Dependency& dependency : task.dependencies) {
    if (dependency.mark == Mark::Unfulfilled) dependency.mark = look(world, job, task, dependency);
    fulfilled += dependency.mark == Mark::Fulfilled;
    failed += dependency.mark == Mark::Failed;
  }
  const size_t all = task.dependencies.size();
  if (any ? fulfilled > 0 : fulfilled == all) {
    task.dependencies.clear();  // for good, as slurmctld flushes its list
    return Mark::Fulfilled;
  }
  return (any ? failed == all : failed > 0) ? Mark::Failed : Mark::Unfulfilled;
}

const Outcome* outcome_of(const World& world, const Job& job) {
  for (const Outcome& outcome : world.outcomes) {
    if (::fnmatch(outcome.glob.c_str(), job.request.name.c_str(), 0) == 0) return &outcome;
  }
  return nullptr;
}

Seconds limit_of(const World& world, const Job& job, const Task& task) {
  const int minutes = limit_minutes(world, job.request);
  return minutes == 0 ? kNever : task.started + minutes * 60;
}

Seconds outcome_time(const Outcome* outcome, const Task& task) {
  return outcome == nullptr ? kNever : task.started + outcome->after;
}

Seconds signal_time(const World& world, const Job& job, const Task& task) {
  const Seconds limit = limit_of(world, job, task);
  if (job.request.signal == 0 || task.signalled || limit == kNever) return kNever;
  return std::max(task.started, limit - job.request.signal_lead);
}

void end_by_outcome(World& world, Found found, const Outcome& outcome) {
  const bool requeued = outcome.state == State::NodeFail || outcome.state == State::Preempted;
  if (requeued && found.job->request.requeue) {
    requeue(world, found, name(outcome.state));
  } else {
    const int signal = outcome.state == State::OutOfMemory ? 125 : 0;
    end(world, found, outcome.state, outcome.exit_code, signal, true);
  }
}

/// What is due for a running task: its end, its time limit, the signal before it.
void end_due(World& world, Found found) {
  const Outcome* outcome = outcome_of(world, *found.job);
  const Seconds limit = limit_of(world, *found.job, *found.task);
  const Seconds done = outcome_time(outcome, *found.task);
  if (world.now >= done && done <= limit) {
    end_by_outcome(world, found, *outcome);
  } else if (world.now >= limit) {
    end(world, found, State::Timeout, 0, 0, true);
  } else if (world.now >= signal_time(world, *found.job, *found.task)) {
    found.task->signalled = true;
    send_signal(world, found, found.job->request.signal, found.job->request.signal_batch_only);
  }
}

/// Why a pending task cannot start whatever is free; "" if it can.
std::string obstacle(World& world, Found found) {
  Task& task = *found.task;
  const Mark mark = check_dependencies(world, *found.job, task);
  if (mark == Mark::Failed) {
    if (found.job->request.kill_on_invalid_dependency) cancel(world, found, -1);
    return "DependencyNeverSatisfied";
  }
  if (mark == Mark::Unfulfilled) return "Dependency";
  if (task.held) return "JobHeldUser";
  if (task.begin > world.now) return "BeginTime";
  if (task.eligible == 0) task.eligible = world.now;
  const auto running = std::count_if(found.job->tasks.begin(), found.job->tasks.end(),
                                     [](const Task& t) { return t.state == State::Running; });
  const int throttle = found.job->request.throttle;
  return throttle > 0 && running >= throttle ? "JobArrayTaskLimit" : "";
}

/// Starts a pending task if it may; `full` are the partitions in which one waits for nodes already.
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

}  // namespace

std::optional<Seconds> next_event(World& world, bool limits) {
  Seconds next = kNever;
  const auto consider = [&](Seconds at) {
    if (at > world.now) next = std::min(next, at);
  };
  for (const Late& late : world.late) consider(late.due);
  for_each_task(world, [&](Found found) {
    const Task& task = *found.task;
    if (is_final(task.state)) {
      if (!is_over(world, task)) consider(task.ended + world.config.complete_seconds);
      if (limits) consider(task.ended + world.config.min_job_age);
      return;
    }
    for (const Dependency& d : task.dependencies) {
      const auto parent = find_task(world, d.job, d.task < 0 ? -1 : d.task).task;
      if (d.minutes > 0 && parent != nullptr) consider(parent->started + d.minutes * 60);
    }
    if (task.state == State::Pending) {
      consider(task.begin);
      return;
    }
    const Outcome* outcome = outcome_of(world, *found.job);
    const Seconds done = outcome_time(outcome, task);
    if (limits || outcome != nullptr) {
      consider(std::min(done, limit_of(world, *found.job, task)));
      consider(signal_time(world, *found.job, task));
    }
  });
  if (next == kNever) return std::nullopt;
  return next;
}

namespace {

/// Ends what is due and starts what may start; whether any task is in another state now.
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
    const bool here = submission.due > 0 ? submission.due <= world.now : submission.calls <= 0;
    if (!here) {
      world.late.push_back(std::move(submission));
      continue;
    }
    try {
      submit(world, submission.request);
    } catch (const Refused&) {  // nobody is left who could be told
    }
  }
}

void schedule(World& world) {
  arrive(world);
  while (move_on(world)) {  // what ends lets others start, which may end in the same second
  }
  for_each_task(world, [&](Found found) {
    const bool old = world.now >= found.task->ended + world.config.min_job_age;
    if (old && is_over(world, *found.task)) found.task->purged = true;
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
  for (auto next = next_event(world, true); next && *next <= until;
       next = next_event(world, true)) {
    world.now = *next;
    schedule(world);
  }
  world.now = until;
  schedule(world);
}

void settle(World& world) {
  schedule(world);
  while (const auto next = next_event(world, false)) {
    world.now = *next;
    schedule(world);
  }
}

}  // namespace dlflow::fake_slurm
