#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "engine/plan/run_directory.h"
#include "engine/store/job_table.h"
#include "engine/store/store.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The engine and the supervisors write files of their own, and clocks of two nodes differ: within
/// an attempt what the engine wrote up to its submission comes first (that may be a second one, of
/// a job that was blocked for a while), then what the supervisor says, then what the engine made of
/// it.
constexpr int kRankOfSubmission = 0;
constexpr int kRankOfSupervisor = 1;
constexpr int kRankOfVerdict = 2;

struct RankedEvent {
  int rank = 0;
  JobEvent event;
};

/// As Plan::directory has it.
std::string absolute_folder(const fs::path& folder) {
  const fs::path normal = fs::absolute(folder).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

using EventsByJob = std::map<std::string, std::vector<RankedEvent>>;

/// `list` are the engine's events of one job, as they stand in its file.
void rank_engine_events(std::vector<RankedEvent>& list) {
  std::map<int, size_t> submission;  // by attempt: the place of the last one
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

std::vector<JobEvent> in_order(EventsByJob&& events) {
  std::vector<JobEvent> result;
  for (auto& [job, list] : events) {
    std::stable_sort(list.begin(), list.end(), [](const RankedEvent& a, const RankedEvent& b) {
      return std::tie(a.event.attempt, a.rank) < std::tie(b.event.attempt, b.rank);
    });
    for (RankedEvent& ranked : list) result.push_back(std::move(ranked.event));
  }
  return result;
}

/// Which folders are there, asked once for each parent: most of 10,000 queued jobs have none yet,
/// and a network file system answers for each of them alone.
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

}  // namespace

std::string Store::sync_run(const fs::path& run_directory) {
  const std::string folder = absolute_folder(run_directory);
  std::string run = has_run(folder) ? name_of(folder) : create_run(load_run(folder));
  const int64_t id = run_id(folder);

  const auto [engine_read, ended] = [&] {
    const Rows rows = database_.query("SELECT engine_read, state FROM runs WHERE id = ?", id);
    rows->next();
    return std::pair(uint64_t(rows->integer(0)), rows->text(1) != name(RunState::Running));
  }();
  EventTail tail(engine_events_file(run_directory), engine_read);
  EventsByJob news;
  for (JobEvent& event : tail.read()) {
    std::string job = event.job;
    news[std::move(job)].push_back({.event = std::move(event)});
  }
  const Rows active = database_.query(
      "SELECT name FROM jobs WHERE run = ? AND state IN ('submitting', 'queued', 'running', "
      "'lost', 'blocked')",
      id);  // of the last two, which may be wrong, records may show late
  while (active->next()) news[active->text(0)];
  ExistingFolders folders;
  for (auto& [job, list] : news) {
    rank_engine_events(list);
    const fs::path directory = job_directory(run_directory, job);
    if (!folders.contains(directory)) continue;
    for (const int attempt : attempts(directory)) {
      for (JobEvent& event : attempt_events(directory, job, attempt)) {
        list.push_back({kRankOfSupervisor, std::move(event)});
      }
    }
  }

  Transaction transaction(database_);
  const bool any_new = record_in_transaction(id, in_order(std::move(news)));
  database_.execute("UPDATE runs SET engine_read = ? WHERE id = ?", tail.offset(), id);
  transaction.commit();
  if (any_new || !ended) settle_run_state(run);
  return run;
}

std::string Store::rebuild_run(const fs::path& run_directory) {
  const std::string folder = absolute_folder(run_directory);
  const Plan plan = load_run(folder);  // a damaged run is not forgotten
  if (has_run(folder)) forget(folder);
  if (has_run(plan.run) && !fs::exists(directory(plan.run))) forget(plan.run);
  create_run(plan);
  return sync_run(folder);
}

}  // namespace dlflow
