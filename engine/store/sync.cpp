#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "engine/plan/ends_log.h"
#include "engine/plan/extension.h"
#include "engine/plan/run_directory.h"
#include "engine/store/store.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The engine and the supervisors write separate files, and clocks of two nodes differ. So events
/// are ordered by rank within an attempt: first the engine's up to its submission (that may be a
/// second one, of a job that was blocked for a while), then the supervisor's, then the engine's
/// verdict.
constexpr int kRankOfSubmission = 0;
constexpr int kRankOfSupervisor = 1;
constexpr int kRankOfVerdict = 2;

/// The maximum size of a job's record: jobs write a few lines for each pass, and their outputs. A
/// larger file is damaged or foreign; it might fill the disk, so it is not read.
constexpr uint64_t kMaxJobRecord = uint64_t{64} << 20;
/// The maximum size of the engine's record per job, with a wide margin.
constexpr uint64_t kMaxEngineRecord = uint64_t{16} << 10;

struct RankedEvent {
  int rank = 0;
  JobEvent event;
};

/// In the form of Plan::directory.
std::string absolute_folder(const fs::path& folder) {
  const fs::path normal = fs::absolute(folder).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

using EventsByJob = std::map<JobName, std::vector<RankedEvent>>;

/// `list` holds the engine's events of one job, in the order of its file.
void rank_engine_events(std::vector<RankedEvent>& list) {
  std::map<int, size_t> submission;  // attempt -> index of its last submission
  for (size_t i = 0; i < list.size(); ++i) {
    const JobEvent& event = list[i].event;
    const bool opens = event.state == JobState::Submitting || event.state == JobState::Queued;
    if (opens) submission[event.attempt] = i;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const auto last = submission.find(list[i].event.attempt);
    const bool before = last != submission.end() && i <= last->second;
    list[i].rank = before ? kRankOfSubmission : kRankOfVerdict;
  }
}

/// Adds the events of one job to `result`, in their order.
void append_in_order(std::vector<RankedEvent>&& list, std::vector<JobEvent>& result) {
  std::stable_sort(list.begin(), list.end(), [](const RankedEvent& a, const RankedEvent& b) {
    return std::tie(a.event.attempt, a.rank) < std::tie(b.event.attempt, b.rank);
  });
  for (RankedEvent& ranked : list) result.push_back(std::move(ranked.event));
}

/// Throws Error{Corrupt} if `bytes`, the sizes of `file` and of related files, are too many.
void check_record(const fs::path& file, uint64_t bytes, uint64_t max_bytes) {
  if (bytes <= max_bytes) return;
  throw Error(Errc::Corrupt, file.string() + " is damaged: there are " + format_size(bytes) +
                                 " of events, and dlflow writes no more than " +
                                 format_size(max_bytes) +
                                 "; move it away, and the rest of the run is shown");
}

/// The new part of the engine's `file`, whose known end is `tail`.
EventsByJob read_engine(EventTail& tail, const fs::path& file, uint64_t num_jobs) {
  const uint64_t bytes = size_or_zero(file);
  check_record(file, bytes - std::min(bytes, tail.offset()),
               kMaxJobRecord + num_jobs * kMaxEngineRecord);
  EventsByJob news;
  for (JobEvent& event : tail.read()) {
    JobName job = event.job;
    news[std::move(job)].push_back({.event = std::move(event)});
  }
  return news;
}

/// Adds the events of a job's supervisors to `list`; returns their number of bytes.
uint64_t add_attempts(const fs::path& directory, const JobName& job,
                      std::vector<RankedEvent>& list) {
  uint64_t bytes = 0;
  for (const int attempt : attempts(directory)) {
    const fs::path file = attempt_directory(directory, attempt) / "events.jsonl";
    bytes += size_or_zero(file);
    check_record(file, bytes, kMaxJobRecord);
    for (JobEvent& event : attempt_events(directory, job, attempt)) {
      list.push_back({kRankOfSupervisor, std::move(event)});
    }
  }
  return bytes;
}

/// The existing folders, listed once for each parent: most of 10,000 queued jobs have none yet, and
/// a network file system would look up each of them separately.
class ExistingFolders {
 public:
  bool contains(const fs::path& folder) {
    const auto [listing, is_new] = listings_.try_emplace(folder.parent_path());
    if (is_new) {
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(listing->first, none)) {
        listing->second.insert(entry.path().filename().string());
      }
    }
    return listing->second.contains(folder.filename().string());
  }

 private:
  std::map<fs::path, std::unordered_set<std::string>> listings_;
};

/// New events of a run's jobs, in portions that fit into memory.
class News {
 public:
  /// \param by_job  the engine's events of each job that may have new ones
  News(fs::path run_directory, EventsByJob by_job)
      : run_directory_(std::move(run_directory)),
        by_job_(std::move(by_job)),
        next_(by_job_.begin()) {}

  bool at_end() const { return next_ == by_job_.end(); }

  /// The next jobs, with the events of each in their order.
  std::vector<JobEvent> portion() {
    std::vector<JobEvent> found;
    uint64_t bytes = 0;
    for (; !at_end() && bytes < kMaxJobRecord; ++next_) {
      auto& [job, list] = *next_;
      rank_engine_events(list);
      const fs::path directory = job_directory(run_directory_, job);
      if (folders_.contains(directory)) bytes += add_attempts(directory, job, list);
      append_in_order(std::move(list), found);
    }
    return found;
  }

 private:
  fs::path run_directory_;
  EventsByJob by_job_;
  EventsByJob::iterator next_;
  ExistingFolders folders_;
};

/// The recorded data of a run.
struct RecordedRun {
  uint64_t engine_read = 0;  ///< bytes of RUN/events.jsonl
  uint64_t num_jobs = 0;
  bool has_ended = false;
};

RecordedRun recorded_run(Database& database, int64_t run) {
  const Rows rows = database.query(
      "SELECT engine_read, (SELECT count(*) FROM jobs WHERE run = runs.id), state FROM runs "
      "WHERE id = ?",
      run);
  rows->next();
  return {.engine_read = uint64_t(rows->integer(0)),
          .num_jobs = uint64_t(rows->integer(1)),
          .has_ended = rows->text(2) != name(RunState::Running)};
}

bool has_job(Database& database, int64_t run, const JobName& job) {
  return database.query("SELECT 1 FROM jobs WHERE run = ? AND name = ?", run, job)->next();
}

/// Adds the jobs whose supervisors may have written. The last two states may be wrong: the records
/// of such jobs may appear late.
void add_active_jobs(Database& database, int64_t run, EventsByJob& news) {
  const Rows active = database.query(
      "SELECT name FROM jobs WHERE run = ? AND state IN ('submitting', 'queued', 'running', "
      "'lost', 'blocked')",
      run);
  while (active->next()) news[JobName(active->text(0))];
}

}  // namespace

std::string Store::sync_run(const fs::path& run_directory, const Plan* loaded) {
  const std::string folder = absolute_folder(run_directory);
  if (!has_run(folder)) create_run(loaded != nullptr ? *loaded : load_run(folder));
  const int64_t id = run_id(folder);
  const bool has_lists = take_newest_jobs(id, folder, loaded);
  const auto knows = [&](const JobName& job) { return has_job(database_, id, job); };
  restore_ends(folder, knows);

  const RecordedRun recorded = recorded_run(database_, id);
  EventTail tail(engine_events_file(run_directory), recorded.engine_read);
  EventsByJob by_job = read_engine(tail, engine_events_file(run_directory), recorded.num_jobs);
  add_active_jobs(database_, id, by_job);
  // Removes elements of an earlier list, and the job that represented them before any was known.
  if (has_lists) std::erase_if(by_job, [&](const auto& job) { return !knows(job.first); });

  News news(run_directory, std::move(by_job));
  bool any_new = false;
  do {
    const std::vector<JobEvent> portion = news.portion();
    Transaction transaction(database_);
    any_new |= record_in_transaction(id, portion);
    // Events read twice, after a kill before this is written, are stored once.
    if (news.at_end()) {
      database_.execute("UPDATE runs SET engine_read = ? WHERE id = ?", tail.offset(), id);
    }
    transaction.commit();
  } while (!news.at_end());
  if (any_new || !recorded.has_ended) settle_run_state(folder);
  return name_of(folder);
}

bool Store::take_newest_jobs(int64_t run, const fs::path& run_directory, const Plan* loaded) {
  const int extension = newest_extension(run_directory);
  const bool is_known =
      database_.query("SELECT 1 FROM runs WHERE id = ? AND extension = ?", run, int64_t(extension))
          ->next();
  if (!is_known) take_jobs(run, loaded != nullptr ? *loaded : load_run(run_directory));
  return extension > 0;
}

void Store::read_open_runs() {
  std::vector<fs::path> open;
  {
    const Rows rows = database_.query("SELECT directory FROM runs WHERE state = 'running'");
    while (rows->next()) open.emplace_back(rows->text(0));
  }
  for (const fs::path& run : open) {
    try {
      const auto now = std::chrono::steady_clock::now();
      auto& next = next_reading_[run];
      if (now < next || !fs::exists(run / "plan.json")) continue;
      const auto lock = RunLock::try_acquire(run);
      if (!lock) continue;
      sync_run(run);
      next = now + std::chrono::seconds(1);  // a run is read at most once a second
    } catch (const Error& error) {
      if (error.code() == Errc::Unavailable) throw;
      continue;  // damaged; `status` reports it
    }
  }
}

std::string Store::rebuild_run(const fs::path& run_directory) {
  const std::string folder = absolute_folder(run_directory);
  const Plan plan = load_run(folder);  // throws before it forgets a damaged run
  if (has_run(folder)) forget(folder);
  if (has_run(plan.run) && !fs::exists(directory(plan.run))) forget(plan.run);
  create_run(plan);
  return sync_run(folder);
}

}  // namespace dlflow
