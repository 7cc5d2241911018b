#include "tests/support/fake_slurm/world.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <set>

#include "base/text.h"
#include "tests/support/fake_slurm/schedule.h"

namespace dlflow::fake_slurm {
namespace {

size_t count_in_memory(const World& world) {
  size_t count = 0;
  for (const Job& job : world.jobs) {
    count += size_t(std::count_if(job.tasks.begin(), job.tasks.end(),
                                  [](const Task& task) { return !task.purged; }));
  }
  return count;
}

int count_unfinished(const World& world, const std::string& user) {
  int count = 0;
  for (const Job& job : world.jobs) {
    if (job.request.user != user) continue;
    count += int(std::count_if(job.tasks.begin(), job.tasks.end(),
                               [](const Task& task) { return !is_final(task.state); }));
  }
  return count;
}

bool among(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || name.empty() ||
         std::find(names.begin(), names.end(), name) != names.end();
}

/// Throws Refused if the cluster could never run `request`, whatever else runs.
void check_request(const World& world, const Request& request) {
  const Config& config = world.config;
  const Partition* partition = find_partition(config, request.partition);
  if (partition == nullptr) throw Refused{"Invalid partition name specified"};
  if (!among(config.accounts, request.account)) {
    throw Refused{"Invalid account or account/partition combination specified"};
  }
  if (!among(config.qos, request.qos)) throw Refused{"Invalid qos specification"};
  if (partition->max_minutes > 0 && request.minutes > partition->max_minutes) {
    throw Refused{"Requested time limit is invalid (missing or exceeds some limit)"};
  }
  if (place(world, request, true).empty()) {
    throw Refused{"Requested node configuration is not available"};
  }
}

void check_limits(const World& world, const Request& request, size_t tasks) {
  const Config& config = world.config;
  if (config.max_submit > 0 &&
      count_unfinished(world, request.user) + int(tasks) > config.max_submit) {
    throw Refused{
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "QOSMaxSubmitJobPerUserLimit"};
  }
  if (count_in_memory(world) + tasks >= size_t(config.max_job_count)) {  // as job_mgr.c compares
    throw Refused{"Resource temporarily unavailable", "", true};
  }
}

/// The indices of --array, whose %N goes to request.throttle. Throws Refused.
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

World new_world() {
  World world;
  world.config.nodes = {{"alpha-n1"}, {"alpha-n2"}};
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
    int step = 1;
    if (error != std::errc() || first < 0) return std::nullopt;
    if (at != end && *at == '-') {
      const auto range = std::from_chars(at + 1, end, last);
      at = range.ptr;
      if (range.ec != std::errc()) return std::nullopt;
      if (at != end && *at == ':') {
        const auto stride = std::from_chars(at + 1, end, step);
        at = stride.ptr;
        if (stride.ec != std::errc() || step <= 0) return std::nullopt;
      }
    }
    if (at != end || last < first || last > max) return std::nullopt;
    for (int index = first; index <= last; index += step) indices.insert(index);
  }
  return std::vector<int>(indices.begin(), indices.end());
}

const Partition* find_partition(const Config& config, const std::string& name) {
  for (const Partition& partition : config.partitions) {
    if (name.empty() ? partition.is_default : partition.name == name) return &partition;
  }
  return nullptr;
}

int limit_minutes(const World& world, const Request& request) {
  if (request.minutes > 0) return request.minutes;
  const Partition* partition = find_partition(world.config, request.partition);
  return partition == nullptr ? 0 : partition->max_minutes;
}

JobId submit(World& world, Request request) {
  check_request(world, request);
  request.partition = find_partition(world.config, request.partition)->name;
  const std::vector<int> indices = array_indices(world, request);
  check_limits(world, request, indices.size());
  Job job;
  job.id = world.next_id;
  const auto dependencies = resolve(world, request.dependency);
  for (const int index : indices) {
    Task& task = job.tasks.emplace_back();
    task.index = index;
    if (index < 0) task.raw_id = job.id;
    task.dependencies = dependencies;
    task.submitted = world.now;
    task.begin = request.begin > world.now ? request.begin : 0;
    task.held = request.held;
    if (task.held) task.reason = "JobHeldUser";
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
  const bool all = wanted.empty() || wanted == "*";
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
      unsplit == 1 ? found.job->id : world.next_id++;  // the last keeps the array's
}

void end(World& world, Found found, State state, int exit_code, int exit_signal, bool kill) {
  Task& task = *found.task;
  split_off(world, found);
  if (kill && task.state == State::Running) {
    world.effects.push_back({Effect::Kind::Kill, found.job->id, task.index, 15, task.pid});
  }
  task.state = state;
  task.ended = world.now;
  if (task.started == 0) task.started = world.now;  // as SLURM for a job cancelled in the queue
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
    case State::NodeFail:
      task.reason = "NodeDown";
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

void send_signal(World& world, Found found, int number, bool batch) {
  found.task->signals.push_back({number, batch, world.now});
  if (batch)
    world.effects.push_back({Effect::Kind::Signal, found.job->id, found.task->index, number});
}

void requeue(World& world, Found found, const std::string& state) {
  Task& task = *found.task;
  if (!found.job->request.requeue) throw Refused{"Requested operation is presently disabled"};
  if (task.state == State::Pending) throw Refused{"Job is pending execution"};
  if (task.state == State::Running) {
    world.effects.push_back({Effect::Kind::Kill, found.job->id, task.index, 15, task.pid});
    task.ended = world.now;
  }
  task.passes.push_back({state, task.submitted, task.started, task.ended, task.shares});
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
      if (is_over(world, task)) task.purged = true;
    }
  }
}

bool is_over(const World& world, const Task& task) {
  return is_final(task.state) &&
         (task.shares.empty() || world.now >= task.ended + world.config.complete_seconds);
}

std::string shown_state(const World& world, const Task& task) {
  if (is_final(task.state) && !is_over(world, task)) return "COMPLETING";
  const bool configuring = world.now < task.started + world.config.configure_seconds;
  if (task.state == State::Running && configuring) return "CONFIGURING";
  return name(task.state);
}

std::string short_state(const std::string& state) {
  constexpr std::pair<const char*, const char*> kLetters[] = {
      {"PENDING", "PD"},   {"RUNNING", "R"},    {"CONFIGURING", "CF"},    {"COMPLETING", "CG"},
      {"COMPLETED", "CD"}, {"FAILED", "F"},     {"TIMEOUT", "TO"},        {"CANCELLED", "CA"},
      {"NODE_FAIL", "NF"}, {"PREEMPTED", "PR"}, {"OUT_OF_MEMORY", "OOM"}, {"REQUEUED", "RQ"}};
  for (const auto& [word, letters] : kLetters) {
    if (state == word) return letters;
  }
  return "?";
}

}  // namespace dlflow::fake_slurm
