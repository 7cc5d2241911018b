#include "tests/support/fake_slurm/world.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <set>

#include "base/text.h"
#include "tests/support/fake_slurm/schedule.h"
#include "tests/support/fake_slurm/world_json.h"

namespace dlflow::fake_slurm {
namespace {

int count_unfinished(const World& world) {
  int count = 0;
  for (const Job& job : world.jobs) {
    count += int(std::count_if(job.tasks.begin(), job.tasks.end(),
                               [](const Task& task) { return !is_final(task.state); }));
  }
  return count;
}

/// Throws Refused if the cluster could never run `request`, even when idle.
void check_request(const World& world, const Request& request) {
  const Partition* partition = find_partition(request.partition);
  const std::string& valid = world.config.accounts;
  if (partition == nullptr) throw Refused{"Invalid partition name specified"};
  if (!valid.empty() && !request.account.empty() && request.account != valid) {
    throw Refused{"Invalid account or account/partition combination specified"};
  }
  if (partition->max_minutes > 0 && request.minutes > partition->max_minutes) {
    throw Refused{"Requested time limit is invalid (missing or exceeds some limit)"};
  }
  if (place(world, request, true).empty()) {
    throw Refused{"Requested node configuration is not available"};
  }
}

void check_limit(const World& world, size_t tasks) {
  const int most = world.config.max_submit;
  if (most > 0 && count_unfinished(world) + int(tasks) > most) {
    throw Refused{
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "QOSMaxSubmitJobPerUserLimit"};
  }
}

/// Parses the indices of --array; its %N goes to request.throttle. Throws Refused.
std::vector<int> array_indices(const World& world, Request& request) {
  if (request.array.empty()) return {-1};
  const size_t percent = request.array.find('%');
  if (percent != std::string::npos) {
    request.throttle = std::atoi(request.array.c_str() + percent + 1);
  }
  const auto indices =
      parse_indices(request.array.substr(0, percent), world.config.max_array_size - 1);
  if (!indices || indices->empty()) throw Refused{"Invalid job array specification"};
  return *indices;
}

}  // namespace

std::string name(State state) { return Json(state); }

std::optional<State> state_of(const std::string& word) {
  const State state = Json(word);  // the first state if unknown
  return name(state) == word ? std::optional(state) : std::nullopt;
}

World new_world() {
  World world;
  std::tm morning{};
  morning.tm_year = 126;
  morning.tm_mon = 10;
  morning.tm_mday = 21;
  morning.tm_hour = 8;
  morning.tm_isdst = -1;
  world.now = std::mktime(&morning);
  return world;
}

std::optional<std::vector<int>> parse_indices(const std::string& text, int max) {
  std::set<int> indices;
  for (const std::string& part : split(text, ',')) {
    int first = 0;
    const char* const end = part.data() + part.size();
    auto [at, error] = std::from_chars(part.data(), end, first);
    int last = first;
    if (error != std::errc() || first < 0) return std::nullopt;
    if (at != end && *at == '-') {
      const auto range = std::from_chars(at + 1, end, last);
      at = range.ptr;
      if (range.ec != std::errc()) return std::nullopt;
    }
    if (at != end || last < first || last > max) return std::nullopt;
    for (int index = first; index <= last; ++index) indices.insert(index);
  }
  return std::vector<int>(indices.begin(), indices.end());
}

const Partition* find_partition(const std::string& name) {
  if (name.empty()) return &kPartitions.front();
  for (const Partition& partition : kPartitions) {
    if (partition.name == name) return &partition;
  }
  return nullptr;
}

int limit_minutes(const Request& request) {
  return request.minutes > 0 ? request.minutes : find_partition(request.partition)->max_minutes;
}

JobId submit(World& world, Request request) {
  check_request(world, request);
  request.partition = find_partition(request.partition)->name;
  const std::vector<int> indices = array_indices(world, request);
  check_limit(world, indices.size());
  Job job;
  job.id = world.next_id;
  const auto dependencies = resolve(world, request.dependency);
  for (const int index : indices) {
    Task& task = job.tasks.emplace_back();
    task.index = index;
    if (index < 0) task.raw_id = job.id;
    task.dependencies = dependencies;
    task.submitted = world.now;
    if (!dependencies.empty()) task.reason = "Dependency";
  }
  job.request = std::move(request);
  world.jobs.push_back(std::move(job));
  return world.next_id++;
}

std::vector<Dependency> resolve(World& world, const std::string& text) {
  auto dependencies = parse_dependencies(text);
  if (!dependencies) throw Refused{"Job dependency problem"};
  for (Dependency& dependency : *dependencies) {
    const Job* parent = find_job(world, dependency.job);
    const bool is_array = parent != nullptr && parent->is_array();
    if (is_array && dependency.task == -1) dependency.task = kAllTasks;
  }
  return *dependencies;
}

Job* find_job(World& world, JobId id) {
  const auto found = std::lower_bound(world.jobs.begin(), world.jobs.end(), id,
                                      [](const Job& job, JobId value) { return job.id < value; });
  return found != world.jobs.end() && found->id == id ? &*found : nullptr;
}

Found find_task(World& world, JobId id, int index) {
  Job* job = find_job(world, id);
  if (job == nullptr) return {};
  for (Task& task : job->tasks) {
    if (task.index == index) return {job, &task};
  }
  return {};
}

std::vector<Found> find(World& world, const std::string& text) {
  const Refused invalid{"Invalid job id specified"};
  JobId id = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || id == 0 || (at != end && *at != '_')) throw invalid;
  std::string wanted(at == end ? at : at + 1, end);
  const bool all = wanted.empty();
  if (wanted.starts_with('[') && wanted.ends_with(']'))
    wanted = wanted.substr(1, wanted.size() - 2);
  const auto indices = all ? std::vector<int>() : parse_indices(wanted, 1 << 22);
  if (!indices) throw invalid;
  std::vector<Found> found;
  for (Job& job : world.jobs) {
    for (Task& task : job.tasks) {
      const bool by_raw_id = at == end && task.raw_id == id;
      const bool chosen = all || std::binary_search(indices->begin(), indices->end(), task.index);
      if (!task.purged && (by_raw_id || (job.id == id && chosen))) found.push_back({&job, &task});
    }
  }
  return found;
}

void split_off(World& world, Found found) {
  if (found.task->raw_id != 0) return;
  const auto unsplit = std::count_if(found.job->tasks.begin(), found.job->tasks.end(),
                                     [](const Task& task) { return task.raw_id == 0; });
  found.task->raw_id =
      unsplit == 1 ? found.job->id : world.next_id++;  // the last task keeps the array's id
}

void end(World& world, Found found, State state, int exit_code, int exit_signal, bool kill) {
  Task& task = *found.task;
  split_off(world, found);
  if (kill && task.state == State::Running) {
    world.effects.push_back({Effect::Kind::Kill, found.job->id, task.index, 15, task.pid});
  }
  task.state = state;
  task.ended = world.now;
  if (task.started == 0) task.started = world.now;  // like SLURM for a job cancelled in the queue
  task.exit_code = exit_code;
  task.exit_signal = exit_signal;
  switch (state) {
    case State::Failed:
      task.reason = "NonZeroExitCode";
      break;
    case State::Timeout:
      task.reason = "TimeLimit";
      break;
    case State::OutOfMemory:
      task.reason = "OutOfMemory";
      break;
    default:
      task.reason = "None";
  }
}

void cancel(World& world, Found found, int user) {
  if (is_final(found.task->state)) return;
  end(world, found, State::Cancelled, 0, 0, true);
  found.task->cancelled_by = user;
}

void send_signal(World& world, Found found, int number) {
  world.effects.push_back({Effect::Kind::Signal, found.job->id, found.task->index, number});
}

void requeue(World& world, Found found) {
  Task& task = *found.task;
  if (!found.job->request.requeue) throw Refused{"Requested operation is presently disabled"};
  if (task.state == State::Pending) throw Refused{"Job is pending execution"};
  if (task.state == State::Running) {
    world.effects.push_back({Effect::Kind::Kill, found.job->id, task.index, 15, task.pid});
  }
  task.state = State::Pending;
  task.restarts += 1;
  task.submitted = world.now;
  task.begin = world.now + world.config.requeue_delay;
  task.reason = "BeginTime";
  task.started = task.ended = task.eligible = 0;
  task.exit_code = task.exit_signal = 0;
  task.cancelled_by = -1;
  task.signalled = false;
  task.pid = 0;
  task.shares.clear();
}

void purge(World& world) {
  for (Job& job : world.jobs) {
    for (Task& task : job.tasks) {
      if (is_final(task.state)) task.purged = true;
    }
  }
}

}  // namespace dlflow::fake_slurm
