#include "engine/report/again_text.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "engine/model/profile.h"
#include "engine/model/profile_text.h"
#include "engine/model/step_kinds.h"
#include "engine/report/job_words.h"
#include "engine/store/store.h"

namespace dlflow {
namespace {

bool ran_out_of_memory(const JobRow& job) {
  return job.state == JobState::Failed && job.reason.find("out of memory") != std::string::npos;
}

/// " --set memory=2GiB" or " --set walltime=20m" for a job that ran out of memory or time; else
/// empty.
std::string more_of_it(const JobRow& job) {
  if (!job.asked) return "";
  if (ran_out_of_memory(job) && job.asked->memory_bytes > 0) {
    constexpr uint64_t kMebibyte = uint64_t{1} << 20;
    const uint64_t mebibytes = (2 * job.asked->memory_bytes + kMebibyte - 1) / kMebibyte;
    return " --set memory=" + yaml_size(mebibytes * kMebibyte);
  }
  if (job.state != JobState::TimedOut || job.asked->walltime.count() == 0) return "";
  const auto minutes = std::chrono::ceil<std::chrono::minutes>(2 * job.asked->walltime);
  return " --set walltime=" + std::to_string(minutes.count()) + "m";
}

bool has_no_program(const JobRow& job) {
  return job.reason.starts_with("there is no program '") && job.reason.ends_with("' in PATH");
}

/// Whether the program ended by itself and would end the same way again, or does not exist.
bool fails_again(const JobRow& job) {
  constexpr int kBySignal = 128;
  if (job.state == JobState::Failed && has_no_program(job)) return true;
  const bool by_signal = job.exit.value_or(0) > kBySignal;
  return job.state == JobState::Failed && job.exit && !by_signal && !ran_out_of_memory(job);
}

/// Whether the mistake is in the workflow's own text: the step reads no other file, a program
/// refused its `with:`, or the command does not exist.
bool is_mistake_of_workflow(const JobRow& job) {
  constexpr int kCommandNotFound = 127;
  return job.correction == Correction::Workflow || job.exit == kCommandNotFound ||
         has_no_program(job) || job.reason.find("with: '") != std::string::npos;
}

Correction correction_of(const Plan& plan, uint32_t step) {
  const StepKind* const kind = find_step_kind(plan.workflow.steps[step].uses);
  if (kind != nullptr && copies_sources(kind->name)) return Correction::Outside;
  const bool has_sources =
      !plan.steps[step].inputs.empty() || (kind != nullptr && !kind->model.empty());
  return has_sources ? Correction::Sources : Correction::Workflow;
}

/// Returns `file` as a shell in this folder accepts it.
std::string typed(const std::filesystem::path& file) { return shell_quote(from_here(file)); }

/// Returns the workflow file beside which the sources lie. Files unpacked from a bundle are not for
/// editing.
std::string workflow_of(const Plan& plan) {
  const std::filesystem::path file =
      plan.base / std::filesystem::path(plan.workflow.file).filename();
  std::error_code none;
  const bool is_bundled = file.native().starts_with((dlflow_home() / "bundles" / "").native());
  const bool is_there = !is_bundled && std::filesystem::is_regular_file(file, none);
  return is_there ? typed(file) : "WORKFLOW";
}

/// " --profile alpha"; empty for this machine, unless $DLFLOW_PROFILE names another profile.
std::string profile_of_run(const Plan& plan) {
  if (plan.profile.name == "local" && default_profile() == "local") return "";
  const std::vector<std::string> known = known_profiles();
  const bool by_name = plan.profile.file.find('/') == std::string::npos ||
                       std::ranges::find(known, plan.profile.name) != known.end();
  return " --profile " + (by_name ? shell_quote(plan.profile.name) : typed(plan.profile.file));
}

}  // namespace

std::string from_here(const std::filesystem::path& path) {
  const auto relative = path.lexically_proximate(std::filesystem::current_path());
  return relative.native().starts_with("..") ? path.string() : relative.string();
}

std::string run_anew(const Plan& plan) {
  std::string command = "dlflow run " + workflow_of(plan);
  for (const std::string& word : plan.options.set) command += " --set " + shell_quote(word);
  if (!plan.options.until.empty()) command += " --until " + shell_quote(plan.options.until);
  return command + profile_of_run(plan);
}

void add_plan(RunStatus& status, const Plan& plan) {
  status.run_anew = run_anew(plan);
  std::map<std::string_view, const PlannedJob*> planned;
  for (const PlannedJob& job : plan.jobs) planned[job.name] = &job;
  for (JobRow& row : status.jobs) {
    const auto found = planned.find(row.job);
    if (found == planned.end()) continue;
    row.asked = *found->second->resources;
    row.correction = correction_of(plan, found->second->step);
  }
}

AgainText again_text(const RunStatus& status) {
  AgainText text{"dlflow resubmit " + status.run};
  const JobRow* const wrong = first_wrong(status);
  if (wrong == nullptr) return text;
  text.command += more_of_it(*wrong);
  if (fails_again(*wrong) && is_mistake_of_workflow(*wrong) && !status.run_anew.empty()) {
    text = {status.run_anew, {"uses your corrections; dlflow resubmit would ignore them"}};
  } else if (fails_again(*wrong) && wrong->correction != Correction::Outside) {
    text.command += " --with-new-sources";
    text.notes = {"after correcting a script"};
    if (!status.run_anew.empty()) {
      text.notes = {"after correcting a script; after changing the workflow or the shell:",
                    status.run_anew};
    }
  }
  return text;
}

}  // namespace dlflow
