#include "engine/supervisor/supervisor.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"
#include "engine/plan/retry.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/parents.h"
#include "engine/supervisor/results.h"
#include "engine/supervisor/watch.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kBriefly(20);
constexpr int kTryAgain = 75;  // EX_TEMPFAIL of sysexits.h: "saved, run me again"

/// How many processes the kernel has killed for want of memory, on this machine since it booted.
uint64_t out_of_memory_kills() {
  constexpr std::string_view kKey = "\noom_kill ";
  const std::string counters = read_file_if_exists("/proc/vmstat").value_or("");
  const size_t found = counters.find(kKey);
  if (found == std::string::npos) return 0;
  return std::strtoull(counters.c_str() + found + kKey.size(), nullptr, 10);
}

/// How many passes of this attempt have failed and were followed by another.
int failed_tries(const AttemptFiles& files) {
  if (files.pass == 1) return 0;
  int failed = 0;
  for (const JobEvent& event : EventTail(files.events()).read()) {
    failed = std::max(failed, event.failed_tries);
  }
  return failed;
}

/// One pass of one attempt.
class Pass {
 public:
  Pass(JobSpec spec, AttemptFiles files, Watcher& watcher, const SupervisorOptions& options)
      : spec_(std::move(spec)),
        files_(std::move(files)),
        watcher_(watcher),
        options_(options),
        failed_tries_(failed_tries(files_)),
        events_(files_.events()) {}

  /// Runs the job and records how it ended. Throws Error only if that could not be recorded.
  void run();

 private:
  struct Skip {
    std::string reason;
  };

  void record(JobEvent event);
  void notify(Notice notice) const {
    if (options_.notify) options_.notify(notice);
  }
  JobEvent execute();
  void note_termination();
  bool is_ours() const;
  ResolvedJob resolve(const std::vector<ParentRecord>& parents) const;
  WatchOptions watch_options() const;
  JobEvent end_of(const Watched& watched, const std::string& signature_before,
                  uint64_t memory_kills_before) const;
  int exit_code(const Watched& watched, bool out_of_memory) const;
  std::string why_again() const;
  JobEvent succeeded(const std::vector<ParentRecord>& parents) const;
  std::string failure_reason(int code, bool out_of_memory) const;
  std::string asked_for() const;
  JobEvent end_or_next_try(JobEvent end) const;
  bool can_save() const { return spec_.uses == "train" || spec_.checkpoint.has_value(); }

  JobSpec spec_;
  AttemptFiles files_;
  Watcher& watcher_;
  const SupervisorOptions& options_;
  int failed_tries_;
  uint64_t said_before_ = 0;  // what earlier passes left on standard error
  AppendFile events_;
};

JobEvent event(JobState state, std::string reason = "") {
  JobEvent result;
  result.state = state;
  result.reason = std::move(reason);
  return result;
}

void Pass::record(JobEvent event) {
  event.at = SystemClock().now();
  event.backend_id = options_.backend_id.empty() ? std::to_string(::getpid()) : options_.backend_id;
  event.node = host_name();
  events_.append(to_line(event));
}

ResolvedJob Pass::resolve(const std::vector<ParentRecord>& parents) const {
  const Json run = {{"id", spec_.run}, {"directory", spec_.run_directory.string()}};
  Context context;
  context.params = &spec_.params;
  context.matrix = &spec_.element;
  context.run = &run;
  context.steps = [&](const Reference& reference) {
    return parent_value(reference, spec_.element, parents);
  };
  const Template condition(spec_.condition);
  const Template with(spec_.with);
  const Template environment(spec_.environment);
  // A script is no template: `${{` in it was refused by the parser.
  const Template command(spec_.run_command.is_string() ? Json() : spec_.run_command);
  for (const Template* part : {&condition, &with, &environment, &command}) {
    if (refers_to_skipped(part->references(), parents))
      throw Skip{"a step that it uses was skipped"};
  }
  if (!spec_.condition.is_null()) {
    const Json wanted = condition.evaluate(context);
    if (!wanted.is_boolean()) {
      throw Error(Errc::InvalidInput,
                  "`if:` is " + wanted.dump() + ", which is neither true nor false");
    }
    if (!wanted.get<bool>()) throw Skip{"its `if:` is false"};
  }
  ResolvedJob job;
  job.with = with.evaluate(context);
  job.environment = environment.evaluate(context);
  job.run_command = spec_.run_command.is_string() ? spec_.run_command : command.evaluate(context);
  return job;
}

/// At once: a scheduler that takes the node away kills us too, some seconds later.
void Pass::note_termination() {
  JobEvent note;
  note.reason = "told to end by SIGTERM";
  record(std::move(note));
  events_.sync();
}

WatchOptions Pass::watch_options() const {
  WatchOptions options;
  options.walltime = spec_.resources.walltime;
  options.time_to_end = milliseconds(10'000);
  if (can_save()) {
    options.time_to_save = milliseconds(60'000);
    if (options.walltime.count() > 0) {
      options.time_to_save = std::min(options.time_to_save, options.walltime / 4);
    }
  }
  return options;
}

void Pass::run() {
  JobEvent end;
  try {
    end = execute();
    if (end.state == JobState::Succeeded && is_ours()) {
      crash_point("publish");
      publish(spec_, files_);
    }
  } catch (const Skip& skip) {
    end = event(JobState::Skipped, skip.reason);
  } catch (const std::exception& error) {  // a full disk may come as a filesystem_error
    end = event(JobState::Failed, error.what());
  }
  if (!is_ours()) throw Error(Errc::Unavailable, "another pass has taken over");
  record(end_or_next_try(std::move(end)));
  events_.sync();
  notify(Notice::Recorded);
  crash_point("ended");
}

/// A node that was given up may come back and go on with a pass that another node has taken over.
bool Pass::is_ours() const {
  if (!options_.requeues) return true;
  const auto newest = newest_claim(files_.attempt);
  return !newest || newest->pass == files_.pass;
}

JobEvent Pass::execute() {
  std::vector<ParentRecord> parents;
  try {
    parents = read_parents(spec_);
  } catch (const Error& error) {
    return event(JobState::Blocked, error.what());
  }
  const ResolvedJob job = resolve(parents);
  prepare_files(spec_, job, files_);
  const std::string signature = checkpoint_signature(spec_);
  if (can_save()) make_directories(checkpoints_directory(spec_));
  const Command command = make_command(spec_, job, files_, options_.gpus);
  const uint64_t memory_kills = out_of_memory_kills();
  std::error_code none;
  const auto said = fs::file_size(files_.standard_error(), none);
  if (!none) said_before_ = said;
  if (const StopCause cause = watcher_.stop_requested(); cause != StopCause::None) {
    JobEvent end = event(JobState::Cancelled, "stopped before it began");
    if (cause == StopCause::Terminated && options_.requeues) end.state.reset();
    return end;
  }

  record(event(JobState::Running));
  crash_point("running");
  const pid_t program = start(command);
  // While the program runs already: the claim keeps others away whatever is lost. One that ends at
  // once costs one sync, not two.
  if (watcher_.is_quiet_for(kBriefly)) {
    events_.sync();
    notify(Notice::Recorded);
  }
  WatchOptions how = watch_options();
  if (options_.requeues) how.on_terminate = [this] { note_termination(); };
  const Watched watched = watcher_.watch(program, how);
  notify(Notice::ProgramEnded);
  JobEvent end =
      watched.exit.code == 0 ? succeeded(parents) : end_of(watched, signature, memory_kills);
  end.used = watched.used;
  return end;
}

JobEvent Pass::succeeded(const std::vector<ParentRecord>& parents) const {
  JobEvent end;
  end.exit = 0;
  try {
    end.metrics = read_metrics(files_);
    check_requirements(spec_, end.metrics);
    end.outputs = collect_outputs(spec_, files_);
  } catch (const std::exception& error) {
    end.state = JobState::Failed;  // with the exit status and the metrics
    end.reason = error.what();
    return end;
  }
  end.state = JobState::Succeeded;
  std::vector<ParentResult> left;
  for (const ParentRecord& parent : parents) left.push_back(parent.left);
  end.fingerprint = fingerprint(spec_.fingerprint_base, left);
  return end;
}

JobEvent Pass::end_of(const Watched& watched, const std::string& signature_before,
                      uint64_t memory_kills_before) const {
  const bool out_of_memory = out_of_memory_kills() > memory_kills_before;
  const int code = exit_code(watched, out_of_memory);
  const bool saved = code == kTryAgain;
  const milliseconds walltime = spec_.resources.walltime;
  const std::string limit = walltime.count() > 0 ? "walltime of " + format_duration(walltime)
                                                 : "time limit of the cluster";
  JobEvent end;
  end.exit = code;
  if (watched.cause == StopCause::Terminated && options_.requeues) {
    end.reason = saved ? "stopped by SIGTERM, checkpoint saved" : "stopped by SIGTERM";
  } else if (watched.cause == StopCause::Requested || watched.cause == StopCause::Terminated) {
    end.state = JobState::Cancelled;
    end.reason = saved ? "stopped on request, checkpoint saved" : "stopped on request";
  } else if (saved && checkpoint_signature(spec_) != signature_before) {
    end.state = JobState::Queued;
    end.reason = watched.cause == StopCause::Walltime
                     ? limit + " reached, goes on from its checkpoint"
                     : "saved a checkpoint and asked to be run again" + why_again();
  } else if (saved && watched.cause != StopCause::Walltime) {
    end.state = JobState::Failed;
    end.reason = "exit 75 (run me again), but no progress since the last checkpoint" + why_again();
  } else if (watched.cause == StopCause::Walltime) {
    end.state = JobState::TimedOut;
    end.reason = limit + " reached";
    if (saved) end.reason += ", no progress since the last checkpoint";
  } else {
    end.state = JobState::Failed;
    end.reason = failure_reason(code, out_of_memory);
  }
  return end;
}

/// A rank that the kernel killed for want of memory, and the others asked to be run again: where
/// more memory is to follow, that is what counts.
int Pass::exit_code(const Watched& watched, bool out_of_memory) const {
  JobEvent killed = event(JobState::Failed);
  killed.exit = 128 + SIGKILL;
  const bool counts = watched.exit.code == kTryAgain && watched.cause == StopCause::None &&
                      out_of_memory && wants_more_memory(spec_.retry, killed);
  return counts ? *killed.exit : watched.exit.code;
}

/// "; error: rank 1 (node b2): killed by signal 9 (Killed)", if the program said such a thing.
std::string Pass::why_again() const {
  const std::string line = telling_line(files_.standard_error(), said_before_);
  return line.starts_with("error") ? "; " + line : "";
}

/// A failure that is tried again is no end: the job stays in the scheduler's hands.
JobEvent Pass::end_or_next_try(JobEvent end) const {
  end.failed_tries = failed_tries_;
  const int tries = failed_tries_ + 1;
  if (!options_.requeues || !should_retry(spec_.retry, end, tries)) return end;
  const bool more = wants_more_memory(spec_.retry, end) && options_.more_memory_bytes > 0;
  JobEvent next =
      event(JobState::Queued, "try " + std::to_string(tries + 1) + " of " +
                                  std::to_string(spec_.retry.attempts) + " follows" +
                                  (more ? " with " + format_size(options_.more_memory_bytes) : "") +
                                  "; the last one: " + end.reason);
  next.exit = end.exit;
  next.used = end.used;
  next.failed_tries = tries;
  return next;
}

/// ", asked for 1 GiB": of memory, if anybody did.
std::string Pass::asked_for() const {
  const uint64_t given = options_.memory_bytes;
  const uint64_t bytes = given > 0 ? given : spec_.resources.memory_bytes;
  if (bytes == 0) return "";
  const bool per_node = given > 0 && spec_.resources.ranks > 1;
  return ", asked for " + format_size(bytes) + (per_node ? " per node" : "");
}

std::string Pass::failure_reason(int code, bool out_of_memory) const {
  const std::string line = telling_line(files_.standard_error(), said_before_);
  std::string rest = line.empty() ? "" : ": " + line;
  std::error_code unknown;
  if (fs::space(files_.attempt, unknown).available == 0 && !unknown) {
    rest += "; No space left on device in " + files_.attempt.string();
  }
  const int signal = code > 128 ? code - 128 : 0;
  if (signal == SIGKILL && out_of_memory) {
    return "out of memory (killed by the kernel)" + asked_for() + rest;
  }
  if (signal > 0 && signal < 65) {
    return "killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")" + rest;
  }
  return "exit " + std::to_string(code) + rest;
}

/// "…/attempt-3" -> 3
int attempt_number(const fs::path& directory) {
  const std::string name = directory.filename().string();
  return std::stoi(name.substr(name.rfind('-') + 1));
}

}  // namespace

Supervision supervise(const fs::path& attempt_directory, int pass,
                      const SupervisorOptions& options) {
  const AttemptFiles files{attempt_directory, attempt_number(attempt_directory), pass};
  try {
    Watcher watcher(options.token);
    if (!claim_pass(attempt_directory, pass, options.backend_id, options.token)) {
      return Supervision::NotOurs;
    }
    crash_point("claim");
    const Json json = Json::parse(read_file(attempt_directory / "job.json"), nullptr, false);
    Pass(job_spec_from_json(json), files, watcher, options).run();
    return Supervision::Recorded;
  } catch (const std::exception& error) {
    const std::string message = std::string("error: ") + error.what() + "\n";
    std::fputs(message.c_str(), stderr);
    std::ofstream(files.standard_error(), std::ios::app) << message;
    return Supervision::Unrecorded;
  }
}

}  // namespace dlflow
