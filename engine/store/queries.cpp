#include <algorithm>
#include <set>
#include <span>

#include "base/error.h"
#include "base/file_identity.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/store/job_table.h"
#include "engine/store/store.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

Json values_of(const Json& outputs) {
  Json values = Json::object();
  for (const auto& [name, output] : outputs.items()) values[name] = output.value("value", Json());
  return values;
}

JobRow to_job_row(StoredJob job, const fs::path& run_directory) {
  JobRecord& record = job.record;
  JobRow row;
  row.step = job.name.step();
  row.element = job.name.element();
  static_cast<JobCourse&>(row) = record;
  row.outputs = values_of(record.outputs);
  row.may_fail = job.may_fail;
  row.is_open = job.is_open;
  if (row.may_fail && is_failure(row.state)) {
    row.reason += (row.reason.empty() ? "" : "; ") + std::string("which is allowed");
  }
  if (!record.metrics.is_null()) row.metrics = std::move(record.metrics);
  row.directory = record.reused_from.empty() ? job_directory(run_directory, job.name).string()
                                             : std::move(record.reused_from);
  row.job = std::move(job.name);
  return row;
}

/// The sum of all times of five seconds or more, between two events, in which no job was under way.
std::chrono::milliseconds idle_time(Database& database, int64_t run) {
  const Rows rows = database.query(
      "SELECT at_ms, job, state IN ('submitting', 'queued', 'running') FROM events "
      "WHERE run = ? AND state IS NOT NULL ORDER BY at_ms, job, number",
      run);
  std::set<int64_t> under_way;
  int64_t idle = 0;
  for (std::optional<int64_t> since; rows->next(); since = rows->integer(0)) {
    const int64_t gap = since ? rows->integer(0) - *since : 0;
    if (under_way.empty() && gap >= 5000) idle += gap;
    if (rows->integer(2) != 0) {
      under_way.insert(rows->integer(1));
    } else {
      under_way.erase(rows->integer(1));
    }
  }
  return std::chrono::milliseconds(idle);
}

/// The columns of a RunHead, and the run's number.
constexpr const char* kHeads =
    "SELECT name, workflow, profile, state, started_ms, ended_ms, directory, id FROM runs ";
constexpr const char* kNewestFirst = "ORDER BY started_ms DESC, id DESC";

RunHead head_of(const Statement& row) {
  return {
      row.text(0),     row.text(1), row.text(2), run_state(row.text(3)), from_ms(row.integer(4)),
      time_at(row, 5), row.text(6)};
}

/// Whether `word` begins the digits at the end of a run's name, or the name with some of them.
bool begins_digits(const RunHead& run, std::string_view word) {
  constexpr size_t kEnough = 4;
  const size_t digits = run.run.rfind('-') + 1;  // 0 without a dash
  if (digits == 0) return false;
  if (word.size() > digits && run.run.starts_with(word)) return true;
  return word.size() >= kEnough && std::string_view(run.run).substr(digits).starts_with(word);
}

std::vector<RunHead> runs_meant(const std::vector<RunHead>& all, std::string_view word) {
  std::vector<RunHead> meant;
  for (const RunHead& run : all) {
    if (run.run == word) return {run};
    if (run.workflow == word || begins_digits(run, word)) meant.push_back(run);
  }
  return meant;
}

/// Refuses an ambiguous word, as git does: the run may be cancelled or removed.
/// \param runs  newest first
[[noreturn]] void ambiguous(std::string_view word, const std::vector<RunHead>& runs, Time now) {
  constexpr size_t kMaxShown = 8;
  const auto shown = std::span(runs).first(std::min(runs.size(), kMaxShown));
  size_t name_width = 0;
  size_t state_width = 0;
  for (const RunHead& run : shown) {
    name_width = std::max(name_width, run.run.size());
    state_width = std::max(state_width, name(run.state).size());
  }
  std::string text = "'" + std::string(word) + "' may be any of " + std::to_string(runs.size()) +
                     " runs, the newest first:\n";
  const auto pad = [](std::string_view cell, size_t width) {
    return "  " + std::string(cell) + std::string(width - cell.size(), ' ');
  };
  for (const RunHead& run : shown) {
    text += pad(run.run, name_width) + pad(name(run.state), state_width) + "  " +
            format_age(now - run.started) + "\n";
  }
  if (const size_t more = runs.size() - shown.size(); more > 0) {
    text += "  and " + std::to_string(more) + " more, which `dlflow status --quick` lists\n";
  }
  throw Error(Errc::InvalidInput, text + "Type the name of one of them: " + runs.front().run);
}

[[noreturn]] void unknown(std::string_view word, const std::vector<RunHead>& runs) {
  if (runs.empty()) {
    throw Error(Errc::NotFound, "there are no runs yet; `dlflow run WORKFLOW` starts one");
  }
  std::vector<std::string> names;
  names.reserve(runs.size());
  for (const RunHead& run : runs) names.push_back(run.run);
  std::string advice = did_you_mean(word, names);
  const std::string workflow(word.substr(0, word.rfind(".y")));  // "digits" of "digits.yaml"
  if (workflow != word && std::ranges::find(runs, workflow, &RunHead::workflow) != runs.end()) {
    advice = "; did you mean a run of '" + workflow + "'?";
  }
  throw Error(Errc::NotFound, "there is no run '" + std::string(word) + "'" + advice +
                                  "; `dlflow status --quick` lists all runs");
}

}  // namespace

RunStatus Store::status(std::string_view run) {
  const int64_t id = run_id(run);
  RunStatus status;
  {
    const Rows rows = database_.query(std::string(kHeads) + "WHERE id = ?", id);
    rows->next();
    static_cast<RunHead&>(status) = head_of(*rows);
  }
  for (StoredJob& job : load_jobs(database_, id)) {
    status.jobs.push_back(to_job_row(std::move(job), status.directory));
  }
  const auto runs_again = [](const JobRow& job) {
    return job.attempt > 1 || (job.attempt == 1 && job.state == JobState::Planned);
  };
  if (std::ranges::any_of(status.jobs, runs_again)) status.idle = idle_time(database_, id);
  return status;
}

std::vector<JobName> Store::repeated_jobs(std::string_view run) {
  std::vector<JobName> names;
  const int64_t id = run_id(run);
  const Rows rows = database_.query(
      "SELECT name FROM jobs WHERE run = ? AND number IN (SELECT job FROM events WHERE run = ? "
      "AND state = 'running' GROUP BY job HAVING count(*) > 1) ORDER BY number",
      id, id);
  while (rows->next()) names.emplace_back(rows->text(0));
  return names;
}

std::optional<Time> Store::last_event(std::string_view run) {
  const Rows rows = database_.query("SELECT max(at_ms) FROM events WHERE run = ?", run_id(run));
  rows->next();
  return time_at(*rows, 0);
}

std::vector<JobEvent> Store::events(std::string_view run, const JobName& job) {
  const int64_t id = run_id(run);
  const uint32_t number = load_job(database_, id, job).number;
  std::vector<JobEvent> events;
  for (const StoredEvent& row : load_events(database_, id, number)) {
    events.push_back(from_row(row));
    events.back().job = job;
  }
  return events;
}

std::vector<RunSummary> Store::runs() {
  std::vector<RunSummary> runs;
  const Rows rows = database_.query(std::string(kHeads) + kNewestFirst);
  while (rows->next()) {
    runs.push_back({head_of(*rows), load_counts(database_, rows->integer(7))});
  }
  return runs;
}

std::optional<fs::path> Store::unrecorded_run(const std::string& name) {
  std::vector<fs::path> folders = {fs::absolute("dlflow-runs")};
  const Rows rows = database_.query(
      "SELECT DISTINCT substr(directory, 1, length(directory) - length(name) - 1) FROM runs "
      "WHERE directory LIKE '%/' || name");
  while (rows->next()) folders.emplace_back(rows->text(0));
  for (const fs::path& folder : folders) {
    std::error_code unreadable;
    if (fs::exists(folder / name / "plan.json", unreadable)) return folder / name;
  }
  return std::nullopt;
}

std::string Store::resolve(std::string_view word) {
  const bool is_path = word.find('/') != std::string_view::npos;
  if (is_path) {
    const std::string folder = fs::absolute(fs::path(word) / "").lexically_normal().parent_path();
    if (has_run(folder)) return name_of(folder);
    if (fs::exists(fs::path(folder) / "plan.json")) return rebuild_run(folder);
  } else if (!word.empty() && word.front() != '.' && !has_run(word)) {
    if (const auto folder = unrecorded_run(std::string(word))) return rebuild_run(*folder);
  }
  std::vector<RunHead> all;
  {
    const Rows rows = database_.query(std::string(kHeads) + kNewestFirst);
    while (rows->next()) all.push_back(head_of(*rows));
  }
  const std::vector<RunHead> meant = runs_meant(all, word);
  if (meant.empty()) unknown(word, all);
  if (meant.size() > 1) ambiguous(word, meant, SystemClock().now());
  return meant.front().run;
}

std::vector<Reuse> Store::reuses() {
  std::vector<Reuse> reuses;
  const Rows rows = database_.query(
      "SELECT runs.name, runs.directory, jobs.reused_from FROM jobs "
      "JOIN runs ON runs.id = jobs.run WHERE jobs.state = ? AND jobs.reused_from IS NOT NULL",
      name(JobState::Cached));
  while (rows->next()) reuses.push_back({rows->text(0), rows->text(1), rows->text(2)});
  return reuses;
}

fs::path Store::directory(std::string_view run) {
  const Rows rows = database_.query("SELECT directory FROM runs WHERE id = ?", run_id(run));
  rows->next();
  return rows->text(0);
}

/// A result that may be reused, with its conditions.
struct Store::Candidate {
  KnownResult result;
  int64_t run = 0;
  std::string workflow;
  int64_t started_ms = 0;
  bool is_command = false;
  std::string reason;
};

/// Returns the later or concurrent run in which the same job did other work; its name is empty if
/// it was removed. A run recorded later counts regardless of its time, since clocks are set back,
/// and clocks of two nodes differ.
std::optional<std::string> Store::overtaker(const Candidate& candidate) {
  const Rows later = database_.query(
      "SELECT runs.name FROM jobs JOIN runs ON runs.id = jobs.run WHERE runs.workflow = ?1 "
      "AND jobs.name = ?2 AND " +
          std::string(kMayHaveBegun) +
          "AND (coalesce(jobs.ended_ms, ?3) >= ?3 OR jobs.run > ?4) AND jobs.fingerprint IS NOT ?5 "
          "UNION ALL SELECT '' FROM overtaken WHERE workflow = ?1 AND job = ?2 "
          "AND (ended_ms >= ?3 OR run > ?4) AND fingerprint <> ?5 LIMIT 1",
      candidate.workflow, candidate.result.job, candidate.started_ms, candidate.run,
      candidate.result.fingerprint.text());
  if (!later->next()) return std::nullopt;
  return later->text(0);
}

/// Whether another run did other work as `parent` between the start of this run's `parent` and the
/// end of this job.
bool Store::was_disturbed(const Candidate& candidate, const std::string& parent) {
  const Rows others = database_.query(
      "WITH own AS (SELECT runs.workflow, made.name, made.fingerprint, "
      "coalesce(made.started_ms, made.ended_ms) AS began, reader.ended_ms AS ended "
      "FROM jobs AS made JOIN runs ON runs.id = made.run "
      "JOIN jobs AS reader ON reader.run = made.run AND reader.name = ?2 "
      "WHERE made.run = ?1 AND made.name = ?3 AND made.state IN ('succeeded', 'cached')) "
      "SELECT 1 FROM own JOIN runs ON runs.workflow = own.workflow AND runs.id <> ?1 "
      "JOIN jobs ON jobs.run = runs.id AND jobs.name = own.name WHERE " +
          std::string(kMayHaveBegun) + "AND jobs.fingerprint IS NOT own.fingerprint AND " +
          std::string(kBegan) +
          " <= own.ended AND coalesce(jobs.ended_ms, own.ended) >= own.began "
          "UNION ALL SELECT 1 FROM own JOIN overtaken ON overtaken.workflow = own.workflow "
          "AND overtaken.job = own.name WHERE overtaken.fingerprint <> own.fingerprint "
          "AND overtaken.began_ms <= own.ended AND overtaken.ended_ms >= own.began LIMIT 1",
      candidate.run, candidate.result.job, parent);
  return others->next();
}

std::map<std::string, std::set<uint32_t>> Store::shared_with_open_runs(std::string_view run) {
  std::multimap<int64_t, std::string> makers;  // by base; a join would compare all pairs of jobs
  const int64_t id = run_id(run);
  const Rows open = database_.query(
      "SELECT jobs.base, runs.name FROM runs JOIN jobs ON jobs.run = runs.id "
      "WHERE runs.state = 'running' AND runs.id <> ? "
      "AND jobs.state IN ('planned', 'submitting', 'queued', 'running')",
      id);
  while (open->next()) makers.emplace(open->integer(0), open->text(1));
  std::map<std::string, std::set<uint32_t>> shared;
  if (makers.empty()) return shared;
  const Rows own =
      database_.query("SELECT base, number FROM jobs WHERE run = ? AND state = 'planned'", id);
  while (own->next()) {
    const auto [first, last] = makers.equal_range(own->integer(0));
    for (auto maker = first; maker != last; ++maker) {
      shared[maker->second].insert(uint32_t(own->integer(1)));
    }
  }
  return shared;
}

std::vector<Store::Candidate> Store::candidates(const Fingerprint& fingerprint) {
  read_open_runs();
  std::vector<Candidate> found;
  const Rows rows = database_.query(
      "SELECT runs.name, runs.directory, jobs.name, jobs.outputs, jobs.metrics, runs.workflow, "
      "coalesce(jobs.started_ms, jobs.ended_ms), instr(bases.text, '\"kind\":\"run\"'), runs.id, "
      "coalesce(jobs.reason, '') FROM jobs "
      "JOIN runs ON runs.id = jobs.run JOIN bases ON bases.id = jobs.base "
      "WHERE jobs.fingerprint = ?1 AND jobs.state = ?2 ORDER BY jobs.ended_ms DESC",
      fingerprint.text(), name(JobState::Succeeded));
  while (rows->next()) {
    Candidate& next = found.emplace_back();
    next.result.run = rows->text(0);
    next.result.job = JobName(rows->text(2));
    next.result.directory = job_directory(rows->text(1), next.result.job);
    if (!rows->is_null(3)) next.result.outputs = json_at(*rows, 3);
    if (!rows->is_null(4)) next.result.metrics = json_at(*rows, 4);
    next.result.fingerprint = fingerprint;
    next.workflow = rows->text(5);
    next.started_ms = rows->integer(6);
    next.is_command = rows->integer(7) > 0;
    next.run = rows->integer(8);
    next.reason = rows->text(9);
  }
  return found;
}

std::string Store::obstacle(const Candidate& candidate, std::span<const std::string> acting) {
  const KnownResult& result = candidate.result;
  // Results that earlier versions took from a bundle were not computed by this user.
  if (candidate.reason.starts_with("taken from bundle ")) {
    return result.run + " took it from a bundle";
  }
  // Later work may have undone the effects of a command elsewhere.
  if (candidate.is_command && act_elsewhere(result.outputs)) {
    if (const auto other = overtaker(candidate)) {
      return (other->empty() ? "a run that was removed" : *other) +
             " has run another version of it since " + result.run +
             ", which may have undone its effects elsewhere; a result in `outputs` would be reused";
    }
  }
  for (const std::string& parent : acting) {
    if (!was_disturbed(candidate, parent)) continue;
    return "another run executed another version of " + parent + " while " + result.run +
           " was running";
  }
  const auto change = find_change(result.directory, *this);
  return change ? "its outputs in " + result.run + " have changed: " + *change : "";
}

std::optional<KnownResult> Store::find(const Fingerprint& fingerprint,
                                       std::span<const std::string> acting) {
  for (Candidate& candidate : candidates(fingerprint)) {
    if (obstacle(candidate, acting).empty()) return std::move(candidate.result);
  }
  return std::nullopt;
}

std::string Store::refusal(const Fingerprint& fingerprint, const std::string& run,
                           const JobName& job) {
  const bool is_new = !has_run(run);
  const int64_t own = is_new ? 0 : run_id(run);
  const Fingerprint wanted =
      is_new ? fingerprint : load_job(database_, own, job).record.fingerprint;
  for (const Candidate& candidate : candidates(wanted)) {
    if (is_new || candidate.run < own) return obstacle(candidate, {});
  }
  return "";
}

std::vector<EarlierBase> Store::earlier(const std::string& workflow, const std::string& step,
                                        const JobName& job, const std::string& run) {
  // The last term of each query's WHERE matches the jobs of a step: its own name, or name[element].
  std::vector<EarlierBase> same_job;
  std::vector<EarlierBase> same_step;
  const Rows runs = database_.query(
      "SELECT id, name FROM runs WHERE workflow = ? AND name <> ? AND started_ms <= "
      "coalesce((SELECT started_ms FROM runs WHERE name = ?), started_ms) "
      "ORDER BY started_ms DESC, id DESC LIMIT 5",
      workflow, run, run);
  while (runs->next()) {
    const Rows rows = database_.query(
        "SELECT jobs.name, bases.text, coalesce(reason, ''), coalesce(reused_from, ''), "
        "coalesce(fingerprint, '') FROM jobs JOIN bases ON bases.id = jobs.base "
        "WHERE run = ?1 AND state IN ('succeeded', 'cached') AND (jobs.name = ?2 "
        "OR jobs.name = ?3 OR (jobs.name > ?3 || '[' AND jobs.name < ?3 || '\\')) "
        "ORDER BY jobs.name = ?2 DESC LIMIT 2",
        runs->integer(0), job, step);
    while (rows->next()) {
      auto& list = rows->text(0) == job.text() ? same_job : same_step;
      list.push_back(
          {maker({runs->text(1), rows->text(2), rows->text(3), rows->text(4)}), rows->text(1)});
    }
  }
  same_job.insert(same_job.end(), same_step.begin(), same_step.end());
  return same_job;
}

std::string Store::maker(const std::string& run, const JobName& job) {
  const Rows rows = database_.query(
      "SELECT coalesce(reason, ''), coalesce(reused_from, ''), coalesce(fingerprint, '') FROM jobs "
      "WHERE run = (SELECT id FROM runs WHERE name = ?) AND name = ?",
      run, job);
  return rows->next() ? maker({run, rows->text(0), rows->text(1), rows->text(2)}) : run;
}

/// A cached job names the folder of the job that has the result, which may itself come from a
/// shared cache.
std::string Store::maker(const Origin& taker) {
  if (const auto shared = run_in_shared_reason(taker.reason)) return *shared;
  if (taker.reused_from.empty()) return taker.run;
  const Rows rows = database_.query(
      "SELECT runs.name, coalesce(jobs.reason, '') FROM jobs JOIN runs ON runs.id = jobs.run "
      "WHERE jobs.fingerprint = ? AND jobs.reused_from IS NULL "
      "AND substr(?, 1, length(runs.directory) + 1) = runs.directory || '/'",
      taker.fingerprint, taker.reused_from);
  if (!rows->next()) return taker.run;  // the original run is gone
  return run_in_shared_reason(rows->text(1)).value_or(rows->text(0));
}

std::string Store::sha256(const fs::path& file) {
  const std::string path = fs::absolute(file).lexically_normal().string();
  if (!has_times_of_kernel(path)) return sha256_file(path);
  const int64_t device = device_of(path);
  const FileIdentity before = identity_of(path);
  {
    const Rows rows = database_.query(
        "SELECT sha256 FROM files WHERE path = ? AND device = ? AND size = ? AND mtime_ns = ? "
        "AND ctime_ns = ? AND inode = ?",
        path, device, before.size, before.mtime_ns, before.ctime_ns, before.inode);
    if (rows->next()) return rows->text(0);
  }
  std::string sha256 = sha256_file(path);
  if (is_settled(before) && identity_of(path) == before && device_of(path) == device) {
    database_.execute(
        "INSERT INTO files(path, device, size, mtime_ns, ctime_ns, inode, sha256) "
        "VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT(path, device) DO UPDATE SET size = excluded.size, "
        "mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode, "
        "sha256 = excluded.sha256",
        path, device, before.size, before.mtime_ns, before.ctime_ns, before.inode, sha256);
  }
  return sha256;
}

}  // namespace dlflow
