#include "engine/plan/ends_log.h"

#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include "base/local_files.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_logs(const fs::path& run_directory) { return run_directory / "ends"; }

/// Creates the folder if needed.
fs::path new_log_file(const fs::path& run_directory, pid_t writer) {
  const fs::path folder = folder_of_logs(run_directory);
  make_directories(folder);
  return folder / (boot_id() + "-" + std::to_string(writer) + ".jsonl");
}

/// The file with the number of bytes of a log that have been restored.
fs::path mark_of(const fs::path& log_file) { return log_file.string() + ".restored"; }

uint64_t restored_bytes(const fs::path& log_file) {
  const auto mark = read_file_if_exists(mark_of(log_file));
  return number_from<uint64_t>(mark.value_or("")).value_or(0);
}

/// A job that was skipped or blocked never ran.
bool has_run(JobState state) { return state != JobState::Skipped && state != JobState::Blocked; }

/// Appends the missing events of the attempt's first pass, which ended with `end`.
void restore_events(const fs::path& file, const JobEvent& end, bool has_begun) {
  AppendFile events(file);
  if (!has_begun && has_run(*end.state)) {
    events.append(to_line({.state = JobState::Running,
                           .at = end.at,
                           .backend_id = end.backend_id,
                           .node = end.node}));
  }
  JobEvent own = end;
  own.job = {};
  own.attempt = 0;
  events.append(to_line(own));
  events.sync();
}

/// The run may come from a stranger, so a log must not name a place outside of it.
bool is_restorable(const fs::path& run_directory, const JobEvent& end, const HasJob& has_job) {
  if (!end.state || !is_final(*end.state) || end.attempt < 1 || !has_job(end.job)) return false;
  return is_below(fs::weakly_canonical(job_directory(run_directory, end.job)),
                  fs::canonical(run_directory));
}

/// Also creates the folders of the pass, which were empty.
void restore(const fs::path& run_directory, const JobEvent& end) {
  const fs::path job = job_directory(run_directory, end.job);
  const auto last = last_state(job, end.job, end.attempt);
  if (last && is_final(*last->state)) return;
  log(LogLevel::Info,
      end.job + ": the end of attempt " + std::to_string(end.attempt) + " is restored");
  const fs::path attempt = attempt_directory(job, end.attempt);
  const fs::path outputs = attempt / "pass-1" / "outputs";
  make_directories(outputs);
  if (end.state == JobState::Succeeded) link_outputs(job, outputs);
  restore_events(attempt / "events.jsonl", end, last.has_value());
  const fs::path steps = run_directory / "steps";
  for (fs::path folder = attempt; folder != steps; folder = folder.parent_path()) {
    sync_directory(folder);
  }
  sync_directory(steps);
  sync_directory(run_directory);
}

void restore_from(const fs::path& run_directory, const fs::path& log_file, const HasJob& has_job) {
  const uint64_t before = restored_bytes(log_file);
  EventTail tail(log_file, before);
  for (const JobEvent& end : tail.read()) {
    if (is_restorable(run_directory, end, has_job)) restore(run_directory, end);
  }
  if (tail.offset() == before) return;
  write_file_atomic(mark_of(log_file), std::to_string(tail.offset()), Durability::Synced);
}

}  // namespace

EndsLog::EndsLog(const fs::path& run_directory, pid_t writer)
    : path_(new_log_file(run_directory, writer)), file_(path_) {}

void EndsLog::append(const JobEvent& end) { file_.append(to_line(end)); }

void EndsLog::sync() {
  file_.sync();
  if (is_named_) return;
  sync_directory(path_.parent_path());
  sync_directory(path_.parent_path().parent_path());
  is_named_ = true;
}

void restore_ends(const fs::path& run_directory, const HasJob& has_job) {
  const std::string this_boot = boot_id() + "-";
  std::error_code none;
  std::vector<fs::path> logs;
  for (const auto& entry : fs::directory_iterator(folder_of_logs(run_directory), none)) {
    const bool is_log = entry.path().extension() == ".jsonl";
    if (is_log && !entry.path().filename().string().starts_with(this_boot)) {
      logs.push_back(entry.path());
    }
  }
  for (const fs::path& log : logs) restore_from(run_directory, log, has_job);
}

}  // namespace dlflow
