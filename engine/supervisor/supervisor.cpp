#include "engine/supervisor/supervisor.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse_json.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/plan/withdrawn.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/ending.h"
#include "engine/supervisor/input_proof.h"
#include "engine/supervisor/kept_checkpoints.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/lost_node.h"
#include "engine/supervisor/parents.h"
#include "engine/supervisor/program_output.h"
#include "engine/supervisor/redact.h"
#include "engine/supervisor/results.h"
#include "engine/supervisor/saved_state.h"
#include "engine/supervisor/shared_results.h"
#include "engine/supervisor/telling_line.h"
#include "engine/supervisor/watch.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kBriefly(20);

/// The number of passes of this attempt that failed and were followed by another.
int failed_tries(const AttemptFiles& files) {
  if (files.pass == 1) return 0;
  int failed = 0;
  for (const JobEvent& event : EventTail(files.events()).read()) {
    failed = std::max(failed, event.failed_tries);
  }
  return failed;
}

JobEvent event(JobState state, std::string reason = "") {
  return {.state = state, .reason = std::move(reason)};
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

  /// Runs the job and records its end. Throws Error only if that could not be recorded.
  Supervision run() {
    JobEvent end;
    try {
      end = execute();
      if (end.state == JobState::Succeeded && is_ours()) {
        crash_point("publish");
        end.published_nothing = is_empty(publication_);
        publish(spec_, files_, std::move(publication_));
        forget_kept_checkpoints(spec_.job_directory);
      }
    } catch (const Skip& skip) {
      end = event(JobState::Skipped, skip.reason);
    } catch (const Block& block) {
      end = event(JobState::Blocked, block.reason);
    } catch (const std::exception& error) {  // a full disk may appear as a filesystem_error
      end = event(JobState::Failed, reason_of(error));
    }
    if (!is_ours()) throw Error(Errc::Unavailable, "another pass has taken over");
    end = end_or_next_try(spec_, options_, failed_tries_, std::move(end));
    const Supervision how = settle(record(end));
    crash_point("ended");
    // No fingerprint covers differences that other processes find or cause elsewhere.
    if (end.state == JobState::Succeeded && !end.fingerprint.empty() && !has_acting_parents_) {
      share_result(spec_, end, shared_before_);
    }
    return how;
  }

 private:
  void notify(Notice notice) const {
    if (options_.notify) options_.notify(notice);
  }

  /// The text in its original form.
  JobEvent record(JobEvent event) {
    event.at = SystemClock().now();
    event.reason = redactor_.text(event.reason);
    event.backend_id =
        options_.backend_id.empty() ? std::to_string(::getpid()) : options_.backend_id;
    event.node = host_name();
    events_.append(to_line(event));
    return event;
  }

  /// The end is on record now; it is synced from here, or by the keeper of ends.
  Supervision settle(JobEvent end) {
    const bool has_output = end.state == JobState::Succeeded && !end.published_nothing;
    if (!options_.keep_end || files_.pass != 1 || has_output || !end.state ||
        !is_final(*end.state)) {
      events_.sync();
      notify(Notice::Recorded);
      return Supervision::Recorded;
    }
    end.job = spec_.job;
    end.attempt = files_.number;
    options_.keep_end(spec_.run_directory, end);
    return Supervision::Kept;
  }

  /// At once: a scheduler that takes the node away kills this process, too, some seconds later.
  void note_termination(const BeforePass& before) {
    if (!is_ours()) return;
    JobEvent note;
    note.reason = "asked to end by SIGTERM";
    note.earlier_error_bytes = before.standard_error_bytes;
    record(std::move(note));
    events_.sync();
  }

  WatchOptions watch_options(const RankPlan& ranks, const BeforePass& before) {
    WatchOptions options;
    options.walltime = spec_.resources.walltime;
    options.time_to_end = milliseconds(10'000);
    if (can_save(spec_.uses, spec_.checkpoint)) {
      options.time_to_save = lead_of(spec_.checkpoint, options.walltime);
      options.save_signal = ranks.asked_by != 0 ? ranks.asked_by : SIGUSR1;
      options.has_relay = has_relay(spec_, ranks);
      options.is_saving = [this] { return !files_being_saved(spec_, false).empty(); };
      options.before_end = [this](int signal) {
        torn_.merge(files_being_saved(spec_, signal == SIGKILL));
      };
      options.on_save_request = [this] { saved_at_request_ = checkpoint_signature(spec_); };
      options.warn = [this](const std::string& warning) { warn(warning); };
    }
    // mpirun ends all ranks by itself once one has failed.
    if (is_by_srun(spec_)) {
      options.has_lost_rank = [this, &before] {
        return bad_end_of_task(said_by_launcher(before)).has_value();
      };
    }
    return options;
  }

  /// A node that was given up may come back and continue a pass that another node has taken over.
  bool is_ours() const {
    if (!options_.requeues) return true;
    const std::vector<int> all = attempts(spec_.job_directory);
    if (!all.empty() && all.back() > files_.number) return false;
    const auto newest = newest_claim(files_.attempt);
    return !newest || newest->pass == files_.pass;
  }

  /// A file that cannot be read now is checked again later.
  bool may_be_ours() const {
    try {
      return is_ours();
    } catch (const std::exception&) {
      return true;
    }
  }

  JobEvent execute() {
    std::vector<ParentResult> parents;
    try {
      parents = read_parents(spec_);
    } catch (const Error& error) {
      return event(JobState::Blocked, error.what());
    }
    ResolvedJob job = resolve(spec_, parents);
    const auto& own = options_.own_signals;  // launchers would forward them
    if (std::ranges::find(own, job.ranks.asked_by) != own.end()) job.ranks.asked_by = SIGUSR1;
    if (spec_.resources.ranks > 1) job.ranks.lost_rank = files_.lost_rank();
    const Fingerprint fingerprint =
        dlflow::fingerprint(spec_.fingerprint_base, spec_.element, parents);
    for (size_t i = 0; i < parents.size(); ++i) {
      const bool acts = spec_.parents[i].is_command && did_something_elsewhere(parents[i]);
      has_acting_parents_ = has_acting_parents_ || acts;
    }
    mixed_ = keep_own_checkpoints(spec_, files_, fingerprint, parents);
    if (!mixed_) mixed_ = find_late_place(spec_, job.with, parents);
    prepare_files(spec_, job, files_);
    if (can_save(spec_.uses, spec_.checkpoint)) make_directories(checkpoints_directory(spec_));
    const Secrets secrets = read_secrets(secrets_file(spec_.run_directory), spec_.secrets);
    redactor_ = Redactor(secrets);
    Command command = make_command(spec_, job, files_, options_.gpus, secrets);
    const InputProof proof(spec_);
    BeforePass before = look_before_pass(spec_, files_, options_);
    if (auto end = end_before_start()) return std::move(*end);
    keep(before.content);

    record(event(JobState::Running));
    crash_point("running");
    if (const auto& doubt = mixed_ ? mixed_ : proof.change_at_start()) {
      doubt_checkpoints(spec_, *doubt);
    } else if (!fingerprint.empty() && !has_acting_parents_) {
      TakenResult taken = take_shared_result(spec_, files_, fingerprint);
      if (taken.result && has_needed_metrics(spec_, taken.result->metrics)) {
        return reused(std::move(*taken.result), fingerprint);
      }
      if (taken.was_damaged) shared_before_ = Existing::IsDamaged;
    }
    Watched watched = run_program(command, secrets, job.ranks, before);
    // Files of PMIx from a step on a node that came back prevent a step of the same number, which
    // mpirun's daemons are, too: a requeued job counts from 0 again. The next one has another
    // number.
    constexpr int kMostSteps = 6;
    const auto may_have_failed = [&] { return watched.exit.code != 0 || is_by_srun(spec_); };
    for (int steps = 1;
         steps < kMostSteps && options_.requeues && watched.cause == StopCause::None &&
         may_have_failed() && was_not_launched(said_by_launcher(before));
         ++steps) {
      before.standard_error_bytes = fs::file_size(files_.standard_error());
      watched = run_program(command, secrets, job.ranks, before);
    }
    before.at_request = saved_at_request_;
    before.torn = torn_;
    put_back_files(spec_, files_, torn_);
    if (const std::string warning = warning_of_lone_ranks(spec_, files_); !warning.empty()) {
      warn(warning);
    }
    // srun may end with 0 after it gave up waiting, or could not start its tasks. Open MPI 5.0's
    // mpirun does so after it lost a node.
    const std::string said = said_by_launcher(before);
    const bool has_lost_ranks = watched.cause == StopCause::LostRank || lost_daemon(said) ||
                                (is_by_srun(spec_) && lost_node(said));
    const bool well = watched.exit.code == 0 && !has_lost_ranks &&
                      !ran_out_of_memory(options_, before) &&
                      !ends_on_request(spec_, before, watched);
    JobEvent end = well ? succeeded(fingerprint, parents)
                        : ending_of(spec_, files_, options_, before, watched);
    end = try_state_before(spec_, files_, before.content, std::move(end));
    take_back_fingerprint(end, proof);
    end.used = watched.used;
    return end;
  }

  void warn(const std::string& text) const {
    log(LogLevel::Warning, text);
    std::ofstream(files_.standard_error(), std::ios::app) << text << "\n";
  }

  /// The state with which a command begins; the command runs without it, too.
  void keep(const std::string& content) const {
    try {
      keep_checkpoints(spec_, content);
    } catch (const std::exception& error) {
      warn(std::string("warning: the checkpoint was not backed up: ") + reason_of(error));
    }
  }

  /// The end of a pass that is no longer needed.
  std::optional<JobEvent> end_before_start() {
    if (const StopCause cause = watcher_.stop_requested(); cause != StopCause::None) {
      JobEvent end = event(JobState::Cancelled, "stopped before it began");
      if (cause == StopCause::Terminated && options_.requeues) end.state.reset();
      return end;
    }
    if (fs::exists(files_.cancel_request())) {
      return event(JobState::Cancelled, "cancelled by `dlflow cancel`");
    }
    if (options_.requeues && is_withdrawn(spec_.run_directory, spec_.job, files_.number)) {
      return event(JobState::Cancelled,
                   "withdrawn before it began: cancelled, or tried again since");
    }
    return std::nullopt;
  }

  /// The output so far of an srun that starts the ranks, in this pass; nothing if another launcher
  /// does.
  std::string said_by_launcher(const BeforePass& before) const {
    if (spec_.resources.ranks == 1 || spec_.launcher.empty()) return "";
    return end_of_output(files_.standard_error(), before.standard_error_bytes);
  }

  /// From its start until all its processes have ended, and its output and reports are free of
  /// secrets.
  Watched run_program(Command command, const Secrets& secrets, const RankPlan& ranks,
                      const BeforePass& before) {
    std::optional<ProgramOutput> output;
    const bool opens_streams_again = spec_.uses.empty();  // it may, and dlflow's own steps do not
    if (opens_streams_again || !secrets.empty()) output.emplace(command, files_, secrets);
    command.blocked_signals.insert(command.blocked_signals.end(), options_.own_signals.begin(),
                                   options_.own_signals.end());
    const pid_t program = start(command);
    // Syncs while the program already runs: the claim keeps others away, even if records are lost.
    // A program that ends at once costs one sync, not two.
    if (watcher_.is_quiet_for(kBriefly)) {
      events_.sync();
      notify(Notice::Recorded);
    }
    WatchOptions how = watch_options(ranks, before);
    if (output) {
      how.output = output->descriptor();
      how.take_output = [&output] { output->take(); };
    }
    if (options_.requeues) {
      how.on_terminate = [this, &before] { note_termination(before); };
      how.is_wanted = [this] {
        renew_claim(files_.attempt, files_.pass);
        return may_be_ours();
      };
      how.look_again = options_.look_again;
    }
    const Watched watched = watcher_.watch(program, how);
    notify(Notice::ProgramEnded);
    if (output) output->finish();
    if (!secrets.empty()) redact_reports(files_, redactor_);
    return watched;
  }

  JobEvent succeeded(const Fingerprint& fingerprint, const std::vector<ParentResult>& parents) {
    JobEvent end;
    end.exit = 0;
    try {
      std::string warning;
      end.metrics = read_metrics(files_, &warning);
      check_needed_metrics(spec_, end.metrics, files_);
      check_requirements(spec_, end.metrics, files_);
      for (const std::string& text : {warning, warning_of_curves(files_)}) {
        if (!text.empty()) warn(text);
      }
      Outputs outputs = collect_outputs(spec_, files_);
      end.outputs = std::move(outputs.values);
      name_elements(end.outputs, parents);
      publication_ = std::move(outputs.publication);
    } catch (const std::exception& error) {
      end.state = JobState::Failed;  // with the exit status and the metrics
      end.reason = reason_of(error);
      return end;
    }
    end.state = JobState::Succeeded;
    end.fingerprint = fingerprint;
    return end;
  }

  /// A result whose inputs changed meanwhile belongs to no fingerprint, and neither does a result
  /// from checkpoints that were saved meanwhile, however the pass ended.
  void take_back_fingerprint(JobEvent& end, const InputProof& proof) const {
    const bool counts = end.state == JobState::Succeeded && !end.fingerprint.empty();
    if (!counts && !can_save(spec_.uses, spec_.checkpoint)) return;
    const auto doubt = mixed_   ? mixed_
                       : counts ? proof.find_change()
                                : proof.find_change_that_may_be_undone();
    if (!doubt) return;
    doubt_checkpoints(spec_, *doubt);
    if (!counts) return;
    end.fingerprint = {};
    end.reason = "will not be reused: " + *doubt;
  }

  JobEvent reused(SharedResult known, const Fingerprint& fingerprint) {
    JobEvent end = event(JobState::Succeeded, shared_reason(known.run));
    end.exit = 0;
    end.outputs = std::move(known.outputs);
    publication_ = publication_of(spec_, files_, end.outputs);
    end.metrics = std::move(known.metrics);
    end.fingerprint = fingerprint;
    return end;
  }

  JobSpec spec_;
  AttemptFiles files_;
  Watcher& watcher_;
  const SupervisorOptions& options_;
  int failed_tries_;
  Redactor redactor_;
  Publication publication_;  // of a job that succeeded
  Existing shared_before_ = Existing::Stays;
  std::optional<std::string> mixed_;  // why its result does not belong to the fingerprint
  std::set<fs::path> torn_;           // files that were incomplete when the program was ended
  std::optional<std::string> saved_at_request_;  // checkpoint_signature(), if it was asked to save
  bool has_acting_parents_ = false;              // commands with effects elsewhere
  AppendFile events_;
};

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
    SharedSignals shared;
    if (options.hear) {
      shared.is_requested = [&files] { return fs::exists(files.cancel_request()); };
      shared.hear = options.hear;
    }
    Watcher watcher(options.token, std::move(shared));
    if (!claim_pass(attempt_directory, pass, options.backend_id, options.token)) {
      return Supervision::NotOurs;
    }
    keep_log(attempt_directory / "supervisor.log");
    crash_point("claim");
    JobSpec spec = job_spec_from_json(parse_json(read_file(attempt_directory / "job.json")));
    if (options.walltime.count() > 0) spec.resources.walltime = options.walltime;
    return Pass(std::move(spec), files, watcher, options).run();
  } catch (const std::exception& error) {
    const std::string message = std::string("error: ") + reason_of(error) + "\n";
    std::fputs(message.c_str(), stderr);
    std::ofstream(files.standard_error(), std::ios::app) << message;
    return Supervision::Unrecorded;
  }
}

}  // namespace dlflow
