#include <signal.h>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/batch/allocation.h"
#include "engine/batch/batch_system.h"
#include "engine/model/schedulers.h"

// A batch system for tests: each task is a folder in $STANDIN and a shell that waits for its turn.
namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Waits for the tasks that `wait` names, and repeats `script` as long as that ends with 75.
constexpr const char* kShell = R"(echo $$ > pid && export STANDIN_JOB="${PWD##*/}" || exit
waits() { for t in $(cat wait); do [ ! -d $t ] || [ -e $t/status ] || return 0; done; false; }
while [ ! -e status ] && waits; do sleep 0.05; done
until [ -e status ]; do
  sh ./script; end=$?; rm -f program
  [ $end = 75 ] || [ -e status ] || echo $end > status
done)";

fs::path folder_of(const std::string& id) { return environment_variable("STANDIN") + "/" + id; }

std::string line_in(const std::string& id, const char* file) {
  return std::string(trim(read_file_if_exists(folder_of(id) / file).value_or("")));
}

int process_in(const std::string& id, const char* file) {
  return std::atoi(line_in(id, file).c_str());
}

BatchJob job_of(const std::string& id) {
  using enum BatchState;
  const std::string status = line_in(id, "status");
  BatchJob job;
  job.id = id;
  job.name = line_in(id, "name");
  job.exit = number_from<int>(status);
  job.state = job.exit ? (*job.exit == 0 ? Completed : Failed) : Pending;
  if (status.empty() && process_in(id, "program") > 0) job.state = Running;
  if (status == "cancelled") job.state = Cancelled;
  return job;
}

/// It waits for ends alone: job-exec looks whether the parents have succeeded.
std::string waits(std::span<const Dependency> dependencies, const std::string& id) {
  std::string text;
  for (const Dependency& dependency : dependencies) {
    const std::string job = "../" + dependency.id;
    const bool pairs = dependency.kind == Dependency::Kind::SameTask && array_task(id);
    text += pairs ? job + id.substr(id.find('_')) : job + " " + job + "_*";
    text += "\n";
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
  std::string cluster_name() override { return "standin"; }
  ArrayRules array_rules() const override { return {}; }
  SubmitCall render(const Batch& batch, const Profile& profile) const override {
    const int throttle = array_throttle(batch, profile);
    return {script_of(batch, 0), [=] { return submit(batch, size_t(throttle)); }};
  }
  std::string detect_profile(const std::string&, const std::string&) override { return ""; }
  static SubmitAnswer submit(const Batch& batch, size_t throttle) {
    int number = 1;
    while (!fs::create_directory(folder_of("number-" + std::to_string(number)))) ++number;
    const std::string job = std::to_string(number);
    std::vector<std::string> ids;
    for (const uint32_t task : batch.tasks) ids.push_back(job + "_" + std::to_string(task));
    if (ids.empty()) ids.push_back(job);
    for (size_t i = 0; i < ids.size(); ++i) {
      Command shell;
      shell.directory = folder_of(ids[i]);
      fs::create_directory(shell.directory);
      const std::string before = throttle > 0 && i >= throttle ? "../" + ids[i - throttle] : "";
      write_file(shell.directory / "wait", waits(batch.dependencies, ids[i]) + before);
      write_file(shell.directory / "script", script_of(batch, array_task(ids[i]).value_or(0)));
      write_file_atomic(shell.directory / "name", batch.name);
      shell.argv = {"sh", "-c", kShell};
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
  JobAnswer cancel(std::span<const JobIdentity> jobs) override {
    for (const std::string& id : ids_of_known(jobs, queue())) {
      if (is_over(job_of(id).state)) continue;
      write_file_atomic(folder_of(id) / "status", "cancelled");
      if (const int shell = process_in(id, "pid")) kill(-shell, SIGTERM);
    }
    return {};
  }
  JobAnswer ask_to_end(const JobIdentity& job) override {
    const int pid = job.is(job_of(job.id)) ? process_in(job.id, "program") : 0;
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
};

}  // namespace

std::unique_ptr<BatchSystem> make_standin() { return std::make_unique<StandinTools>(); }

BatchSection standin_section() {
  const Shape options = object({{"queue", text(), "Queue of the jobs", kOptional, ""}});
  return {options, "Options of the stand-in", "queue", {"STANDIN_JOB"}};
}

std::optional<Allocation> standin_allocation() {
  Allocation allocation;
  allocation.id = environment_variable("STANDIN_JOB");
  allocation.requeue = [](const std::string&) {};  // by its exit status
  allocation.is_at_work = [](const JobIdentity& ours) {
    return ours.is(job_of(ours.id)) && !is_over(job_of(ours.id).state);
  };
  return allocation.id.empty() ? std::nullopt : std::optional(allocation);
}

}  // namespace dlflow
