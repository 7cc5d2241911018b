#include "engine/store/store.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/sha256.h"
#include "engine/plan/fingerprint_base.h"
#include "engine/plan/run_directory.h"
#include "engine/store/job_table.h"
#include "engine/store/schema.h"

namespace dlflow {
namespace {

std::filesystem::path made(const std::filesystem::path& home) {
  try {
    make_directories(home);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) +
                                  "; DLFLOW_HOME names another folder for the record of runs");
  }
  return home;
}

constexpr std::array<std::string_view, 5> kRunStates = {"running", "succeeded", "failed",
                                                        "cancelled", "interrupted"};

/// Ids of base texts. Neighbouring jobs often share one.
class BaseIds {
 public:
  explicit BaseIds(Database& database) : database_(database) {}

  int64_t id(const std::string& text) {
    if (text == last_text_) return last_id_;
    last_id_ = find_or_add(sha256_hex(text), text);
    last_text_ = text;
    return last_id_;
  }

 private:
  int64_t find_or_add(const std::string& sha256, const std::string& text) {
    {
      const Rows rows = database_.query("SELECT id FROM bases WHERE sha256 = ?", sha256);
      if (rows->next()) return rows->integer(0);
    }
    const Rows rows =
        database_.query("INSERT INTO bases(sha256, text) VALUES(?, ?) RETURNING id", sha256, text);
    rows->next();
    const int64_t id = rows->integer(0);
    rows->next();  // the row is inserted once the statement ends
    return id;
  }

  Database& database_;
  std::string last_text_;
  int64_t last_id_ = 0;
};

using CountChanges = std::map<JobState, int64_t>;

void change_counts(Database& database, int64_t run, const CountChanges& changes) {
  for (const auto& [state, change] : changes) {
    if (change == 0) continue;
    database.execute(
        "INSERT INTO counts(run, state, jobs) VALUES(?, ?, ?) "
        "ON CONFLICT(run, state) DO UPDATE SET jobs = jobs + excluded.jobs",
        run, name(state), change);
  }
}

/// The events of each job, in the given order.
std::map<JobName, std::vector<const JobEvent*>> by_job(std::span<const JobEvent> events) {
  std::map<JobName, std::vector<const JobEvent*>> result;
  for (const JobEvent& event : events) result[event.job].push_back(&event);
  return result;
}

void insert_job(Database& database, int64_t base, int64_t run, const Plan& plan, uint32_t job) {
  database.execute(
      "INSERT INTO jobs(run, number, name, state, base, attempt, events, may_fail) "
      "VALUES(?, ?, ?, ?, ?, 0, 0, ?)",
      run, job, plan.jobs[job].name, name(JobState::Planned), base,
      int64_t(plan.workflow.steps[plan.jobs[job].step].allow_failure));
}

int64_t extension_of(const Plan& plan) {
  return plan.extensions.empty() ? 0 : plan.extensions.back().number;
}

}  // namespace

std::string_view name(RunState state) { return kRunStates[size_t(state)]; }

RunState run_state(std::string_view name) {
  const auto found = std::ranges::find(kRunStates, name);
  if (found != kRunStates.end()) return RunState(found - kRunStates.begin());
  throw Error(Errc::Corrupt, "'" + std::string(name) + "' is not the state of a run");
}

std::span<const JobEvent> ReportedRun::events_of(const JobName& job) const {
  const auto found = events.find(job);
  return found == events.end() ? std::span<const JobEvent>() : found->second;
}

std::filesystem::path dlflow_home() {
  if (std::filesystem::path home = environment_variable("DLFLOW_HOME"); !home.empty()) return home;
  const std::filesystem::path state = environment_variable("XDG_STATE_HOME");
  if (!state.empty()) return state / "dlflow";
  const std::filesystem::path home = environment_variable("HOME");
  if (!home.empty()) return home / ".local/state/dlflow";
  throw Error(Errc::InvalidInput,
              "there is no folder for the store of runs: set DLFLOW_HOME to one");
}

Store::Store(const std::filesystem::path& home) : database_(made(home) / "dlflow.db") {
  migrate(database_);
}

int64_t Store::run_id(std::string_view run) {
  const Rows rows = database_.query("SELECT id FROM runs WHERE name = ?1 OR directory = ?1", run);
  if (!rows->next()) {
    throw Error(Errc::NotFound, "there is no run '" + std::string(run) +
                                    "'; `dlflow status --quick` lists all runs");
  }
  return rows->integer(0);
}

bool Store::has_run(std::string_view run) {
  return database_.query("SELECT 1 FROM runs WHERE name = ?1 OR directory = ?1", run)->next();
}

std::string Store::name_of(std::string_view run) {
  const Rows rows = database_.query("SELECT name FROM runs WHERE id = ?", run_id(run));
  rows->next();
  return rows->text(0);
}

std::string Store::free_name(const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; has_run(name); ++number) name = wanted + "." + std::to_string(number);
  return name;
}

std::string Store::create_run(const Plan& plan) {
  Transaction transaction(database_);
  const std::string directory = plan.directory.string();
  if (has_run(directory)) return name_of(directory);
  std::string run_name = free_name(plan.run);
  database_.execute(
      "INSERT INTO runs(name, workflow, profile, directory, state, started_ms, engine_read, "
      "extension) VALUES(?, ?, ?, ?, ?, ?, 0, ?)",
      run_name, plan.workflow.name, plan.profile.name, directory, name(RunState::Running),
      to_ms(plan.created), extension_of(plan));
  const int64_t run = run_id(run_name);
  BaseIds ids(database_);
  FingerprintBases bases(plan);
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    insert_job(database_, ids.id(bases.of(job)), run, plan, job);
  }
  change_counts(database_, run, {{JobState::Planned, int64_t(plan.jobs.size())}});
  transaction.commit();
  return run_name;
}

void Store::take_jobs(int64_t run, const Plan& plan) {
  Transaction transaction(database_);
  std::map<std::string, uint32_t> numbers;
  for (const StoredJob& job : load_jobs(database_, run)) numbers[job.name] = job.number;
  // Moves old numbers out of the way first, since jobs may swap numbers.
  database_.execute("UPDATE jobs SET number = -1 - number WHERE run = ?", run);
  database_.execute("UPDATE events SET job = -1 - job WHERE run = ?", run);
  BaseIds ids(database_);
  FingerprintBases bases(plan);
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    const int64_t base = ids.id(bases.of(job));
    const auto known = numbers.find(plan.jobs[job].name);
    if (known == numbers.end()) {
      insert_job(database_, base, run, plan, job);
      continue;
    }
    const int64_t before = -1 - int64_t(known->second);
    database_.execute("UPDATE jobs SET number = ?, base = ? WHERE run = ? AND number = ?", job,
                      base, run, before);
    database_.execute("UPDATE events SET job = ? WHERE run = ? AND job = ?", job, run, before);
  }
  database_.execute("DELETE FROM jobs WHERE run = ? AND number < 0", run);
  database_.execute("DELETE FROM events WHERE run = ? AND job < 0", run);
  database_.execute("DELETE FROM counts WHERE run = ?", run);
  database_.execute(
      "INSERT INTO counts(run, state, jobs) SELECT run, state, count(*) FROM jobs WHERE run = ? "
      "GROUP BY state",
      run);
  database_.execute("UPDATE runs SET extension = ?, engine_read = 0 WHERE id = ?",
                    extension_of(plan), run);
  transaction.commit();
}

void Store::record(std::string_view run, std::span<const JobEvent> events) {
  if (events.empty()) return;
  Transaction transaction(database_);
  record_in_transaction(run_id(run), events);
  transaction.commit();
}

bool Store::record_in_transaction(int64_t run, std::span<const JobEvent> events) {
  CountChanges changes;
  bool any_new = false;
  for (const auto& [job, news] : by_job(events)) {
    StoredJob stored = load_job(database_, run, job);
    const JobState before = stored.record.state;
    std::multiset<StoredEvent> known;  // one per stored row, so that equal events are kept apart
    if (stored.num_events > 0) {
      const auto earlier = load_events(database_, run, stored.number);
      known.insert(earlier.begin(), earlier.end());
    }
    bool changed = false;
    for (const JobEvent* event : news) {
      const StoredEvent row = to_row(*event);
      if (const auto same = known.find(row); same != known.end()) {
        known.erase(same);
        continue;
      }
      append_event(database_, run, stored.number, ++stored.num_events, row);
      apply(stored.record, *event);
      if (!event->failed_node.empty()) note_node_failure(run, *event);
      changed = true;
    }
    if (!changed) continue;
    any_new = true;
    save_job(database_, run, stored);
    --changes[before];
    ++changes[stored.record.state];
  }
  change_counts(database_, run, changes);
  return any_new;
}

void Store::set_run_state(std::string_view run, RunState state, Time at) {
  const std::optional<int64_t> ended =
      state == RunState::Running ? std::nullopt : std::optional(to_ms(at));
  database_.execute("UPDATE runs SET state = ?, ended_ms = ? WHERE id = ?", name(state), ended,
                    run_id(run));
}

void Store::settle_run_state(std::string_view run) {
  Transaction transaction(database_);
  const int64_t id = run_id(run);
  const RunState state = settled_state(counts_that_matter(database_, id));
  std::optional<int64_t> ended;
  if (state != RunState::Running) {
    const Rows rows = database_.query("SELECT max(ended_ms) FROM jobs WHERE run = ?", id);
    if (rows->next() && !rows->is_null(0)) ended = rows->integer(0);
  }
  database_.execute("UPDATE runs SET state = ?, ended_ms = ? WHERE id = ?", name(state), ended, id);
  transaction.commit();
}

}  // namespace dlflow
