#include "engine/gridengine/tools.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/gridengine/cluster.h"
#include "engine/gridengine/output.h"
#include "engine/gridengine/script.h"

namespace dlflow {
namespace {

using namespace std::chrono_literals;

/// The variables that select the qmaster; SGE_ARCH is for Debian's wrappers.
constexpr std::array<std::string_view, 6> kOwnVariables = {
    "SGE_ROOT=",       "SGE_CELL=",         "SGE_QMASTER_PORT=",
    "SGE_EXECD_PORT=", "SGE_CLUSTER_NAME=", "SGE_ARCH="};

/// The maximum delay of accounting: `flush_time` of its configuration is 15 s.
constexpr std::chrono::milliseconds kAccountingDelay = 15s;

/// Sets times to UTC.
std::vector<std::string> query_environment(std::vector<std::string> environment) {
  std::erase_if(environment, [](const std::string& entry) {
    return entry.starts_with("TZ=") || entry.starts_with("LC_ALL=");
  });
  environment.insert(environment.end(), {"TZ=UTC", "LC_ALL=C"});
  return environment;
}

/// "812.4" for "812_3".
std::string qdel_word(const std::string& id) {
  const auto task = array_task(id);
  return task ? std::string(array_id(id)) + "." + std::to_string(*task + 1) : id;
}

/// "202611231738.52", the format of -b.
std::string qacct_time(Time time) {
  std::string text = to_rfc3339(time).substr(0, 16);
  std::erase_if(text, [](char c) { return c == '-' || c == 'T' || c == ':'; });
  return text;
}

/// Exit status of a job to be rerun under the same id; 100 would hold it in an error state.
constexpr int kRescheduled = 99;

}  // namespace

GridEngineTools::GridEngineTools(ToolOptions options)
    : runner_(options, query_environment(options.environment), is_transient_for_gridengine),
      submission_environment_(submission_environment(options.environment, kOwnVariables)) {}

SubmitCall GridEngineTools::render(const Batch& batch, const Profile& profile) const {
  QsubCall call = qsub_call(batch, profile);
  const std::string text = "# " + shell_line(call.argv) + "\n" + call.script;
  return {text, [this, call = std::move(call)] {
            return qsub_answer(runner_.submit(call.argv, call.script, submission_environment_),
                               runner_.options().time_limit);
          }};
}

ArrayRules GridEngineTools::array_rules() const {
  return {.max_size = 75'000, .gaps = false, .max_dependencies = 10'000, .same_tasks = true};
}

/// Asks `id`, since a static program cannot query NSS itself.
std::string GridEngineTools::user_name() {
  return std::string(trim(runner_.answer({"id", "--name", "--user"}, name())));
}

std::vector<BatchJob> GridEngineTools::queue() {
  return parse_qstat(runner_.answer({"qstat", "-u", user_name(), "-xml"}, name()));
}

Accounting GridEngineTools::qacct(const std::vector<std::string>& selection) {
  std::vector<std::string> argv = {"qacct"};
  argv.insert(argv.end(), selection.begin(), selection.end());
  const Output output = runner_.run_once(argv);
  const bool no_file = output.errors.find("No such file or directory") != output.errors.npos;
  const bool unknown = output.errors.find("not found") != output.errors.npos;
  if (!output.timed_out && !no_file && (output.status.code == 0 || unknown)) {
    return {.jobs = parse_qacct(output.text), .missing = ""};
  }
  return {.jobs = {}, .missing = runner_.failure("qacct", output), .complete = no_file};
}

Accounting GridEngineTools::accounting(std::span<const std::string> ids, Time since) {
  if (ids.empty()) return {};
  Accounting all = qacct({"-o", user_name(), "-b", qacct_time(since - 1h), "-j"});
  all.jobs = jobs_with_ids(std::move(all.jobs), ids);
  return all;
}

std::vector<BatchJob> GridEngineTools::find_by_name(std::span<const std::string> names,
                                                    Time since) {
  return jobs_with_names(queue(), names, [&] {
    return qacct({"-o", user_name(), "-b", qacct_time(since - 1h), "-j"}).jobs;
  });
}

std::optional<std::vector<BatchJob>> GridEngineTools::show_job(const std::string& id) {
  const Output output = runner_.ask({"qstat", "-j", id});
  // `qstat -j` shows no states.
  if (output.status.code == 0) {
    std::vector<BatchJob> jobs = queue();
    std::erase_if(jobs, [&id](const BatchJob& job) { return array_id(job.id) != id; });
    return jobs;
  }
  const std::string said = output.text + output.errors;
  if (said.find("jobs do not exist") == said.npos) return std::nullopt;
  const auto wait = [this](std::chrono::milliseconds pause) { runner_.options().sleep(pause); };
  auto waited = has_waited_for_accounting_ ? kAccountingDelay : 0ms;
  for (auto pause = 1000ms;; pause *= 2) {
    Accounting accounting = qacct({"-j", id});
    // Accounting's file may not exist yet.
    if (!accounting.jobs.empty() || waited >= kAccountingDelay) return std::move(accounting.jobs);
    wait(pause);
    waited += pause;
    has_waited_for_accounting_ = true;
  }
}

JobAnswer GridEngineTools::cancel(std::span<const JobIdentity> jobs) {
  if (jobs.empty()) return {};
  return cancel_in_parts(ids_of_known(jobs, queue()), [this](std::span<const std::string> ids) {
    std::vector<std::string> argv = {"qdel"};
    for (const std::string& id : ids) argv.push_back(qdel_word(id));
    return qdel_answer(runner_.request(argv));
  });
}

JobAnswer GridEngineTools::ask_to_end(const JobIdentity& job) { return cancel({&job, 1}); }

JobAnswer GridEngineTools::wait_for(std::span<const JobIdentity> jobs,
                                    std::span<const Dependency> dependencies) {
  JobAnswer answer;
  const std::vector<std::string> ids = ids_of_known(jobs, queue());
  if (ids.size() != jobs.size()) return {JobAnswer::Kind::Gone, no_longer_ours(jobs.front())};
  for (const std::string& id : ids) {
    if (array_task(id)) return {JobAnswer::Kind::Refused, "tasks of an array wait together"};
    const std::string list = hold_list(dependencies);
    // qalter rejects an empty list; there is no job 0.
    answer = qdel_answer(runner_.request({"qalter", "-hold_jid", list.empty() ? "0" : list, id}));
    if (answer.kind != JobAnswer::Kind::Done) return answer;
  }
  return answer;
}

std::string GridEngineTools::pending_in_words(const BatchJob& job, Time) const {
  const std::string_view letters = job.reason;
  if (job.state != BatchState::Pending) return "";
  if (letters.find('E') != letters.npos) {
    const std::string id(array_id(job.id));
    return "in an error state: `qstat -j " + id + "` shows why, `qmod -cj " + id +
           "` lets it try again";
  }
  return letters.find('h') != letters.npos ? "" : "waits in the queue";
}

std::string GridEngineTools::variable(std::string_view name) const {
  for (const std::string& entry : runner_.options().environment) {
    if (entry.starts_with(std::string(name) + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

std::string GridEngineTools::cluster_name() {
  const std::string root = variable("SGE_ROOT");
  const std::string cell = variable("SGE_CELL").empty() ? "default" : variable("SGE_CELL");
  const std::string folder = (root.empty() ? "/var/lib/gridengine" : root) + "/" + cell;
  const auto name = read_file_if_exists(folder + "/common/cluster_name");
  return name && !trim(*name).empty() ? std::string(trim(*name)) : folder;
}

ClusterLimits GridEngineTools::cluster() {
  ClusterLimits limits;
  limits.cluster = cluster_name();
  limits.accounting = true;
  const std::string help = runner_.run_once({"qstat", "-help"}).text;
  const std::string first = help.substr(0, help.find('\n'));  // "SGE 8.1.9"
  limits.version = first.substr(std::min(first.size(), first.find(' ') + 1));
  add_configuration(limits, runner_.answer({"qconf", "-sconf"}, name()));
  add_queues(limits, runner_.answer({"qhost", "-q", "-xml"}, name()));
  add_walltimes(limits, runner_.answer({"qconf", "-sq", "*"}, name()));
  return limits;
}

std::string GridEngineTools::detect_profile(const std::string&, const std::string& partition) {
  const Output environments = runner_.ask({"qconf", "-spl"});
  return gridengine_profile(cluster(), environments.status.code == 0 ? environments.text : "",
                            partition);
}

std::optional<Allocation> gridengine_allocation() {
  const std::string task = environment_variable("SGE_TASK_ID");  // "undefined" without an array
  Allocation allocation;
  allocation.id = environment_variable("JOB_ID");
  if (allocation.id.empty() || task.empty()) return std::nullopt;
  const long number = std::strtol(task.c_str(), nullptr, 10);
  if (number > 0) allocation.id += "_" + std::to_string(number - 1);
  allocation.requeue = [](const std::string&) {};  // done by the exit status
  allocation.requeue_status = kRescheduled;
  allocation.reserves_statuses = true;
  allocation.own_signals = {SIGUSR2};  // sent by qdel; SIGUSR1 asks the program to save
  allocation.is_at_work = [](const JobIdentity& ours) {
    GridEngineTools tools;
    return is_at_work(tools, ours);
  };
  return allocation;
}

std::unique_ptr<BatchSystem> make_gridengine() { return std::make_unique<GridEngineTools>(); }

}  // namespace dlflow
