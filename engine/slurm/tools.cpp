#include "engine/slurm/tools.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "engine/batch/batch_job.h"
#include "engine/slurm/detect.h"
#include "engine/slurm/output.h"
#include "engine/slurm/pending.h"
#include "engine/slurm/script.h"

namespace dlflow {
namespace {

/// Settings of SLURM's tools that change their output or behaviour, and variables of the job that
/// dlflow itself may run in.
bool is_tool_setting(std::string_view entry) {
  constexpr std::array<std::string_view, 5> kSettings = {"SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_",
                                                         "SINFO_"};
  constexpr std::array<std::string_view, 2> kKept = {"SLURM_CONF", "SLURM_CLUSTERS="};
  if (entry.starts_with("SLURM_")) return !starts_with_any(entry, kKept);
  return starts_with_any(entry, kSettings);
}

std::vector<std::string> query_environment(std::span<const std::string> environment) {
  constexpr std::array<std::string_view, 2> kReplaced = {"TZ=", "LC_ALL="};
  std::vector<std::string> entries;
  for (const std::string& entry : environment) {
    if (!is_tool_setting(entry) && !starts_with_any(entry, kReplaced)) entries.push_back(entry);
  }
  // Times in UTC, in one format; complete lists of array tasks.
  for (const char* const entry :
       {"TZ=UTC", "LC_ALL=C", "SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=0"}) {
    entries.emplace_back(entry);
  }
  return entries;
}

/// The variables that select the controller, and those of the tests' fake tools. SBATCH_* are left
/// out, since they would override the script's options.
constexpr std::array<std::string_view, 3> kTheirs = {"SLURM_CONF", "SLURM_CLUSTERS=", "FAKE_SLURM"};

}  // namespace

SlurmTools::SlurmTools(ToolOptions options)
    : runner_(options, query_environment(options.environment), is_transient),
      submission_environment_(submission_environment(options.environment, kTheirs)) {}

SubmitCall SlurmTools::render(const Batch& batch, const Profile& profile) const {
  const std::string script = sbatch_script(batch, profile);
  return {script, [this, script] { return submit(script); }};
}

SubmitAnswer SlurmTools::submit(const std::string& script) const {
  return sbatch_answer(runner_.submit({"sbatch", "--parsable"}, script, submission_environment_),
                       runner_.options().time_limit);
}

std::string SlurmTools::answer(const std::vector<std::string>& argv) {
  return runner_.answer(argv, name());
}

ArrayRules SlurmTools::array_rules() const {
  constexpr size_t kLongestId = 12;  // ":1234567_8901" in a dependency
  return {.max_text = kMaxArrayText, .max_dependencies = kMaxDependencyText / kLongestId};
}

std::vector<BatchJob> SlurmTools::queue() {
  drained_nodes_.reset();
  return parse_squeue(answer({"squeue", "--me", "--noheader", "--array", "--states=all",
                              std::string("--format=") + kSqueueFormat}));
}

Accounting SlurmTools::sacct(std::vector<std::string> argv, Time since) {
  const std::string start = to_rfc3339(since - std::chrono::hours(1)).substr(0, 19);
  for (const std::string& word :
       {std::string("--noheader"), std::string("--parsable2"), "--starttime=" + start,
        std::string("--format=") + kSacctFormat}) {
    argv.push_back(word);
  }
  const Output output = runner_.run_once(argv);
  if (output.timed_out || output.status.code != 0) {
    std::string missing = runner_.failure("sacct", output);
    const bool none = missing.find("disabled") != std::string::npos;
    return {.jobs = {}, .missing = std::move(missing), .complete = none};
  }
  Accounting accounting{.jobs = parse_sacct(output.text), .missing = ""};
  std::map<std::string, std::string> names;
  for (BatchJob& job : accounting.jobs) {
    if (job.cancelled_by.empty()) continue;
    const auto [name, is_new] = names.emplace(job.cancelled_by, "");
    if (is_new) name->second = user_name(job.cancelled_by);
    job.cancelled_by = name->second;
  }
  return accounting;
}

std::string SlurmTools::user_name(const std::string& number) {
  const Output output = runner_.run_if_there({"id", "--name", "--user", number});
  const std::string name(trim(output.text));
  return output.status.code == 0 && !name.empty() ? name : number;
}

Accounting SlurmTools::accounting(std::span<const std::string> ids, Time since) {
  constexpr size_t kMaxWord = 100'000;  // Linux limits an argument to 131,072 bytes
  if (ids.empty()) return {};
  const std::string list = join(ids, ",");
  if (list.size() <= kMaxWord) return sacct({"sacct", "--jobs=" + list}, since);
  Accounting all = sacct({"sacct"}, since);
  all.jobs = jobs_with_ids(std::move(all.jobs), ids);
  return all;
}

std::vector<BatchJob> SlurmTools::find_by_name(std::span<const std::string> names, Time since) {
  // Does not use --name, in which a comma would end a name.
  return jobs_with_names(queue(), names, [&] { return sacct({"sacct"}, since).jobs; });
}

std::optional<std::vector<BatchJob>> SlurmTools::show_job(const std::string& id) {
  const Output output = runner_.ask({"scontrol", "--oneliner", "show", "job", id});
  std::vector<BatchJob> jobs = parse_show_job(output.text);
  if (!jobs.empty() || output.errors.find("Invalid job id") != std::string::npos) return jobs;
  return std::nullopt;
}

JobAnswer SlurmTools::request(const std::vector<std::string>& argv) {
  return job_answer(runner_.request(argv));
}

JobAnswer SlurmTools::cancel(std::span<const JobIdentity> jobs) {
  if (jobs.empty()) return {};
  return cancel_in_parts(ids_of_known(jobs, queue()), [this](std::span<const std::string> ids) {
    std::vector<std::string> argv = {"scancel"};
    argv.insert(argv.end(), ids.begin(), ids.end());
    return request(argv);
  });
}

std::string SlurmTools::name_of_ours(std::span<const JobIdentity> jobs) {
  const std::string id(array_id(jobs.front().id));
  const auto shown = show_job(id);
  if (!shown) throw Error(Errc::Unavailable, "scontrol show job " + id + " printed no job");
  const bool all = ids_of_known(jobs, *shown).size() == jobs.size();
  return all ? shown->front().name : "";
}

JobAnswer SlurmTools::ask_to_end(const JobIdentity& job) {
  const std::string name = name_of_ours({&job, 1});
  if (name.empty()) return {JobAnswer::Kind::Gone, no_longer_ours(job)};
  // Without --state, scancel retries for minutes if the job was requeued or held meanwhile.
  return request(
      {"scancel", "--batch", "--signal=INT", "--state=RUNNING", "--jobname=" + name, job.id});
}

JobAnswer SlurmTools::update(const std::string& id, const std::string& key,
                             const std::string& value) {
  return request({"scontrol", "update", "jobid=" + id, key + "=" + value});
}

JobAnswer SlurmTools::wait_for(std::span<const JobIdentity> jobs,
                               std::span<const Dependency> dependencies) {
  const std::string text = dependency_text(dependencies);
  if (name_of_ours(jobs).empty()) return {JobAnswer::Kind::Gone, no_longer_ours(jobs.front())};
  if (jobs.size() == 1) return update(jobs.front().id, "dependency", text);
  std::vector<uint32_t> tasks;
  for (const JobIdentity& job : jobs) tasks.push_back(array_task(job.id).value_or(0));
  const std::string range = format_array_range(tasks);
  if (range.size() > kMaxArrayText) return {JobAnswer::Kind::Refused, "too many tasks at once"};
  return update(std::string(array_id(jobs.front().id)) + "_[" + range + "]", "dependency", text);
}

std::string SlurmTools::pending_in_words(const BatchJob& job, Time now) const {
  return slurm_pending_in_words(job, now, [this] { return drained_nodes(); });
}

std::string SlurmTools::drained_nodes() const {
  if (drained_nodes_) return *drained_nodes_;
  const Output output =
      runner_.run_if_there({"sinfo", "--noheader", "--list-reasons", "--format=%N|%E"});
  std::vector<std::string> nodes;
  for (const std::string& line : split(output.text, '\n')) {
    const size_t bar = line.find('|');
    if (bar != line.npos) nodes.push_back(line.substr(0, bar) + " (" + line.substr(bar + 1) + ")");
  }
  return *(drained_nodes_ = join(nodes, ", "));
}

JobAnswer SlurmTools::requeue(const std::string& id) {
  return request({"scontrol", "requeue", id});
}

std::string SlurmTools::cluster_name() {
  return parse_config(runner_.ask({"scontrol", "show", "config"}).text).cluster;
}

ClusterLimits SlurmTools::cluster() {
  ClusterLimits limits = parse_config(answer({"scontrol", "show", "config"}));
  limits.partitions = parse_partitions(answer({"scontrol", "--oneliner", "show", "partition"}));
  add_nodes(limits.partitions,
            answer({"sinfo", "--noheader", std::string("--format=") + kSinfoFormat}));
  return limits;
}

std::string SlurmTools::detect_profile(const std::string& path, const std::string& partition) {
  return detected_profile(detect_cluster(*this, path), partition);
}

std::vector<std::string> SlurmTools::associations(const std::string& format) {
  std::string user;  // sacctmgr does not accept a number
  for (const std::string& entry : runner_.options().environment) {
    if (entry.starts_with("USER=")) user = entry.substr(5);
  }
  if (user.empty()) return {};
  const Output output =
      runner_.run_if_there({"sacctmgr", "--noheader", "--parsable2", "show", "assoc", "where",
                            "user=" + user, "format=" + format});
  return output.status.code == 0 ? split(output.text, '\n') : std::vector<std::string>();
}

std::vector<std::string> SlurmTools::accounts() {
  std::set<std::string> accounts;
  for (const std::string& line : associations("account")) accounts.emplace(trim(line));
  accounts.erase("");
  return {accounts.begin(), accounts.end()};
}

int SlurmTools::submit_limit() {
  int limit = 0;
  const auto tighten = [&limit](const std::string& text) {
    const int value = std::atoi(text.c_str());
    if (value > 0) limit = limit == 0 ? value : std::min(limit, value);
  };
  std::set<std::string> chosen;  // QOS names
  for (const std::string& line : associations("maxsubmitjobs,grpsubmitjobs,defaultqos,qos")) {
    const std::vector<std::string> fields = split(line, '|');
    if (fields.size() != 4) continue;
    tighten(fields[0]);
    tighten(fields[1]);
    chosen.insert(fields[2].empty() ? fields[3] : fields[2]);  // a list of several matches none
  }
  const Output output =
      runner_.run_if_there({"sacctmgr", "--noheader", "--parsable2", "show", "qos",
                            "format=name,maxsubmitjobsperuser,grpsubmitjobs"});
  for (const std::string& line : split(output.text, '\n')) {
    const std::vector<std::string> fields = split(line, '|');
    if (fields.size() != 3 || !chosen.contains(fields[0])) continue;
    tighten(fields[1]);
    tighten(fields[2]);
  }
  return limit;
}

std::vector<std::string> SlurmTools::mpi_types() {
  const Output output = runner_.run_if_there({"srun", "--mpi=list"});
  std::vector<std::string> types;
  // Some versions print it to standard error, and some on one line after "srun: ".
  for (const std::string& line : split(output.text + "\n" + output.errors, '\n')) {
    const std::vector<std::string> words = split(trim(line), ' ');
    const std::string& last = words.back();
    const bool type = !last.empty() && last.find_first_of(".:") == last.npos;
    if (type && (words.size() == 1 || words[0] == "srun:")) types.push_back(last);
  }
  return types;
}

std::unique_ptr<BatchSystem> make_slurm() { return std::make_unique<SlurmTools>(); }

}  // namespace dlflow
