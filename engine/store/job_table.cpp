#include "engine/store/job_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/parse_json.h"

namespace dlflow {
namespace {

constexpr std::string_view kColumns =
    "number, name, events, state, attempt, started_ms, ended_ms, backend_id, node, exit, reason, "
    "fingerprint, outputs, metrics, reused_from, may_fail, "
    "base IS (SELECT id FROM bases WHERE sha256 = "  // the hash of "{}", see fingerprint_base()
    "'44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a')";

std::optional<std::string> text_or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::string> json_or_null(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(dump(json));
}

std::optional<int64_t> ms_or_null(const std::optional<Time>& time) {
  return time ? std::optional(to_ms(*time)) : std::nullopt;
}

StoredJob read_job(const Statement& row) {
  StoredJob job;
  job.number = uint32_t(row.integer(0));
  job.name = JobName(row.text(1));
  job.num_events = row.integer(2);
  JobRecord& record = job.record;
  record.state = job_state(row.text(3));
  record.attempt = int(row.integer(4));
  record.started = time_at(row, 5);
  record.ended = time_at(row, 6);
  record.backend_id = row.text(7);
  record.node = row.text(8);
  if (!row.is_null(9)) record.exit = int(row.integer(9));
  record.reason = row.text(10);
  if (!row.is_null(11)) record.fingerprint = {row.text(11), "the database of runs"};
  record.outputs = json_at(row, 12);
  record.metrics = json_at(row, 13);
  record.reused_from = row.text(14);
  job.may_fail = row.integer(15) != 0;
  job.is_open = row.integer(16) != 0;
  return job;
}

Json stored_json(const std::string& text) {
  return parse_json_or_throw(text, "what the store holds (`dlflow doctor --rebuild` rebuilds it)");
}

void take_details(JobRecord& record, const JobEvent& event) {
  if (!event.backend_id.empty()) record.backend_id = event.backend_id;
  if (!event.node.empty()) record.node = event.node;
  if (event.exit) record.exit = event.exit;
  if (!event.metrics.is_null()) record.metrics = event.metrics;
}

}  // namespace

Json json_at(const Statement& row, int column) {
  return row.is_null(column) ? Json() : stored_json(row.text(column));
}

std::optional<Time> time_at(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(from_ms(row.integer(column)));
}

std::string select_job() {
  return "SELECT " + std::string(kColumns) + " FROM jobs WHERE run = ? AND name = ?";
}

StoredJob load_job(Database& database, int64_t run, const JobName& name) {
  static const std::string sql = select_job();
  const Rows rows = database.query(sql, run, name);
  if (!rows->next()) throw Error(Errc::NotFound, "the run has no job '" + std::string(name) + "'");
  return read_job(*rows);
}

std::vector<StoredJob> load_jobs(Database& database, int64_t run) {
  static const std::string sql =
      "SELECT " + std::string(kColumns) + " FROM jobs WHERE run = ? ORDER BY number";
  std::vector<StoredJob> jobs;
  const Rows rows = database.query(sql, run);
  while (rows->next()) jobs.push_back(read_job(*rows));
  return jobs;
}

void save_job(Database& database, int64_t run, const StoredJob& job) {
  const JobRecord& record = job.record;
  database.execute(
      "UPDATE jobs SET events = ?, state = ?, attempt = ?, started_ms = ?, ended_ms = ?, "
      "backend_id = ?, node = ?, exit = ?, reason = ?, fingerprint = ?, outputs = ?, metrics = ?, "
      "reused_from = ? WHERE run = ? AND number = ?",
      job.num_events, name(record.state), record.attempt, ms_or_null(record.started),
      ms_or_null(record.ended), text_or_null(record.backend_id), text_or_null(record.node),
      record.exit, text_or_null(record.reason), text_or_null(record.fingerprint.text()),
      json_or_null(record.outputs), json_or_null(record.metrics), text_or_null(record.reused_from),
      run, job.number);
}

StoredEvent to_row(const JobEvent& event) {
  StoredEvent row;
  row.attempt = event.attempt;
  if (event.state) row.state = name(*event.state);
  row.at_ms = to_ms(event.at);
  Json detail = to_json(event);
  for (const char* column : {"job", "attempt", "state", "at"}) detail.erase(column);
  if (!detail.empty()) row.detail = dump(detail);
  return row;
}

JobEvent from_row(const StoredEvent& row) {
  Json json = row.detail.empty() ? Json::object() : stored_json(row.detail);
  json["attempt"] = row.attempt;
  json["at"] = to_rfc3339(from_ms(row.at_ms));
  if (!row.state.empty()) json["state"] = row.state;
  return job_event_from_json(json);
}

std::vector<StoredEvent> load_events(Database& database, int64_t run, uint32_t job) {
  std::vector<StoredEvent> events;
  const Rows rows = database.query(
      "SELECT attempt, state, at_ms, detail FROM events WHERE run = ? AND job = ? ORDER BY number",
      run, job);
  while (rows->next()) {
    events.push_back({int(rows->integer(0)), rows->text(1), rows->integer(2), rows->text(3)});
  }
  return events;
}

void append_event(Database& database, int64_t run, uint32_t job, int64_t number,
                  const StoredEvent& row) {
  database.execute(
      "INSERT INTO events(run, job, number, attempt, state, at_ms, detail) "
      "VALUES(?, ?, ?, ?, ?, ?, ?)",
      run, job, number, row.attempt, text_or_null(row.state), row.at_ms, text_or_null(row.detail));
}

Counts load_counts(Database& database, int64_t run) {
  Counts counts;
  const Rows rows =
      database.query("SELECT state, jobs FROM counts WHERE run = ? AND jobs > 0", run);
  while (rows->next()) counts[job_state(rows->text(0))] = size_t(rows->integer(1));
  return counts;
}

Counts counts_that_matter(Database& database, int64_t run) {
  Counts counts = load_counts(database, run);
  const Rows rows = database.query(
      "SELECT state, count(*) FROM jobs WHERE run = ? AND may_fail = 1 "
      "AND state IN ('failed', 'timed-out', 'lost') GROUP BY state",
      run);
  while (rows->next()) {
    const auto of_state = counts.find(job_state(rows->text(0)));
    if (of_state == counts.end()) continue;
    of_state->second -= std::min(of_state->second, size_t(rows->integer(1)));
    if (of_state->second == 0) counts.erase(of_state);
  }
  return counts;
}

RunState settled_state(const Counts& counts) {
  using enum JobState;
  const auto any = [&counts](std::initializer_list<JobState> states) {
    return std::ranges::any_of(states, [&](JobState state) { return counts.contains(state); });
  };
  if (any({Queued, Running})) return RunState::Running;
  if (any({Failed, TimedOut, Lost, Blocked})) return RunState::Failed;
  if (any({Cancelled})) return RunState::Cancelled;
  return any({Planned, Submitting}) ? RunState::Interrupted : RunState::Succeeded;
}

void apply(JobRecord& record, const JobEvent& event) {
  if (event.attempt != 0 && event.attempt < record.attempt) return;
  if (!event.state) {
    if (!event.reason.empty()) record.reason = event.reason;
    take_details(record, event);
    return;
  }
  if (event.attempt > record.attempt) {
    record = JobRecord();
    record.attempt = event.attempt;
  }
  const JobState state = *event.state;
  if (state != record.state && !may_become(record.state, state)) return;
  record.state = state;
  record.reason = event.reason;
  take_details(record, event);
  record.fingerprint = event.fingerprint;
  record.outputs = event.outputs;
  record.reused_from = event.reused_from;
  if (state == JobState::Running && !record.started) record.started = event.at;
  record.ended = is_final(state) ? std::optional(event.at) : std::nullopt;
}

}  // namespace dlflow
