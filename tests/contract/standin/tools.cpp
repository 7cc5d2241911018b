#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/batch/allocation.h"
#include "engine/batch/batch_system.h"
#include "engine/batch/tool_runner.h"

// A batch system for tests: each task is a folder in $STANDIN and a shell that waits for its turn.
namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Waits for the ends of the tasks that `wait` names, and runs `script` as long as that ends
/// with 75.
constexpr const char* kShell = R"(cd "$1" && echo $$ > pid && export STANDIN_JOB="${1##*/}" || exit
waits() {
  for job in $(cat wait); do
    for task in ../$job ../${job}_*; do [ ! -d $task ] || [ -e $task/status ] || return 0; done
  done
  return 1
}
while [ ! -e status ] && waits; do sleep 0.05; done
until [ -e status ]; do
  sh ./script; end=$?; rm -f program
  [ $end = 75 ] || [ -e status ] || echo $end > status
done)";

fs::path folder_of(const std::string& id) { return environment_variable("STANDIN") + "/" + id; }

std::string line_in(const std::string& id, const char* file) {
  return std::string(trim(read_file_if_exists(folder_of(id) / file).value_or("")));
}

int number_in(const std::string& id, const char* file) {
  return std::atoi(line_in(id, file).c_str());
}

BatchJob job_of(const std::string& id) {
  BatchJob job;
  job.id = id;
  job.name = line_in(id, "name");
  const std::string status = line_in(id, "status");
  const bool runs = fs::exists(folder_of(id) / "program");
  job.state = status == "cancelled" ? BatchState::Cancelled
              : status == "0"       ? BatchState::Completed
              : !status.empty()     ? BatchState::Failed
              : runs                ? BatchState::Running
                                    : BatchState::Pending;
  if (job.state == BatchState::Failed) job.exit = number_in(id, "status");
  return job;
}

/// It waits for ends alone: job-exec looks whether the parents have succeeded.
std::string waits(std::span<const Dependency> dependencies, const std::string& id) {
  std::string text;
  for (const Dependency& dependency : dependencies) {
    const bool pairs = dependency.kind == Dependency::Kind::SameTask && array_task(id);
    text += dependency.id + (pairs ? id.substr(id.find('_')) : "") + "\n";
  }
  return text;
}

std::string script_of(const Batch& batch, uint32_t task) {
  std::string text = "echo $$ > program && cd " + shell_quote(batch.run_directory.string()) +
                     " && exec >>" + shell_quote(batch.log.string()) + " 2>&1 && exec";
  for (const std::string& word : batch.command) text += " " + shell_quote(word);
  for (size_t at; (at = text.find(kTaskWord)) != text.npos;)
    text.replace(at, kTaskWord.size(), std::to_string(task));
  return text + "\n";
}

class StandinTools : public BatchSystem {
 public:
  std::string_view name() const override { return "Stand-in"; }
  ArrayRules array_rules() const override { return {}; }
  SubmitCall render(const Batch& batch, const Profile& profile) const override {
    const int throttle = array_throttle(batch, profile);
    return {script_of(batch, 0), [=] { return submit(batch, size_t(throttle)); }};
  }

  static SubmitAnswer submit(const Batch& batch, size_t throttle) {
    int number = 1;
    while (!fs::create_directory(folder_of("number-" + std::to_string(number)))) ++number;
    const std::string job = std::to_string(number);
    std::vector<std::string> ids;
    for (const uint32_t task : batch.tasks) ids.push_back(job + "_" + std::to_string(task));
    if (ids.empty()) ids.push_back(job);
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::string before = throttle > 0 && i >= throttle ? ids[i - throttle] : "";
      const fs::path folder = folder_of(ids[i]);
      fs::create_directory(folder);
      write_file(folder / "wait", waits(batch.dependencies, ids[i]) + before);
      write_file(folder / "script", script_of(batch, array_task(ids[i]).value_or(0)));
      write_file_atomic(folder / "name", batch.name);
      Command shell;
      shell.argv = {"sh", "-c", kShell, "sh", folder.string()};
      shell.environment = current_environment();
      shell.standard_output = shell.standard_error = "/dev/null";
      shell.own_group = shell.closes_descriptors = true;
      start(shell);
    }
    return Accepted{job};
  }

  std::vector<BatchJob> queue() override {
    std::vector<BatchJob> jobs;
    for (const auto& entry : fs::directory_iterator(folder_of(""))) {
      if (fs::exists(entry.path() / "name")) jobs.push_back(job_of(entry.path().filename()));
    }
    return jobs;
  }
  Accounting accounting(std::span<const std::string> ids, Time) override {
    return {.jobs = jobs_with_ids(queue(), ids), .missing = ""};
  }
  std::vector<BatchJob> find_by_name(std::span<const std::string> names, Time) override {
    return jobs_with_names(queue(), names, [] { return std::vector<BatchJob>(); });
  }
  std::optional<std::vector<BatchJob>> show_job(const std::string& id) override {
    return jobs_with_ids(queue(), {&id, 1});
  }

  JobAnswer cancel(std::span<const JobIdentity> jobs) override {
    for (const std::string& id : ids_of_known(jobs, queue())) {
      if (is_over(job_of(id).state)) continue;
      write_file_atomic(folder_of(id) / "status", "cancelled");
      if (const int pid = number_in(id, "pid")) kill(-pid, SIGTERM);
    }
    return {};
  }
  JobAnswer ask_to_end(const JobIdentity& job) override {
    const int pid = job.is(job_of(job.id)) ? number_in(job.id, "program") : 0;
    if (pid > 0 && kill(pid, SIGINT) == 0) return {};
    return {JobAnswer::Kind::Gone, no_longer_ours(job)};
  }
  JobAnswer wait_for(std::span<const JobIdentity> jobs,
                     std::span<const Dependency> dependencies) override {
    const std::vector<std::string> ids = ids_of_known(jobs, queue());
    if (ids.size() != jobs.size()) return {JobAnswer::Kind::Gone, no_longer_ours(jobs.front())};
    for (const auto& id : ids) write_file_atomic(folder_of(id) / "wait", waits(dependencies, id));
    return {};
  }

  std::string pending_in_words(const BatchJob&, Time) const override { return ""; }
  std::string cluster_name() override { return "standin"; }
  ClusterLimits cluster() override {
    return {.cluster = "standin", .version = "", .partitions = {}};
  }
  std::string detect_profile(const std::string&, const std::string&) override { return ""; }
};

}  // namespace

std::unique_ptr<BatchSystem> make_standin() { return std::make_unique<StandinTools>(); }

std::optional<Allocation> standin_allocation() {
  Allocation allocation;
  allocation.id = environment_variable("STANDIN_JOB");
  allocation.requeue = [](const std::string&) {};  // by its exit status
  allocation.is_at_work = [](const JobIdentity& ours) {
    const BatchJob job = job_of(ours.id);
    return ours.is(job) && !is_over(job.state);
  };
  return allocation.id.empty() ? std::nullopt : std::optional(allocation);
}

}  // namespace dlflow
