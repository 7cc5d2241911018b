#include "engine/report/again_text.h"

#include <chrono>

#include "engine/report/job_words.h"

namespace dlflow {
namespace {

/// "2GiB", as a workflow spells it.
std::string in_units(uint64_t bytes) {
  constexpr uint64_t kMebibyte = uint64_t{1} << 20;
  constexpr uint64_t kGibibyte = uint64_t{1} << 30;
  if (bytes % kGibibyte == 0) return std::to_string(bytes / kGibibyte) + "GiB";
  return std::to_string((bytes + kMebibyte - 1) / kMebibyte) + "MiB";
}

bool ran_out_of_memory(const JobRow& job) {
  return job.state == JobState::Failed && job.reason.find("out of memory") != std::string::npos;
}

/// " --set memory=2GiB" for what did not have enough; else nothing.
std::string more_of_it(const JobRow& job) {
  if (!job.asked) return "";
  if (ran_out_of_memory(job) && job.asked->memory_bytes > 0) {
    return " --set memory=" + in_units(2 * job.asked->memory_bytes);
  }
  if (job.state != JobState::TimedOut || job.asked->walltime.count() == 0) return "";
  const auto minutes = std::chrono::ceil<std::chrono::minutes>(2 * job.asked->walltime);
  return " --set walltime=" + std::to_string(minutes.count()) + "m";
}

/// Whether the program itself came to its end, and would again.
bool fails_again(const JobRow& job) {
  constexpr int kBySignal = 128;
  const bool by_signal = job.exit.value_or(0) > kBySignal;
  return job.state == JobState::Failed && job.exit && !by_signal && !ran_out_of_memory(job);
}

const JobRow* first_wrong(const RunStatus& status) {
  for (const JobRow& job : status.jobs) {
    if (went_wrong(job) && job.state != JobState::Blocked) return &job;
  }
  return nullptr;
}

}  // namespace

AgainText again_text(const RunStatus& status) {
  AgainText text{"dlflow resubmit " + status.run, ""};
  const JobRow* const wrong = first_wrong(status);
  if (wrong == nullptr) return text;
  text.command += more_of_it(*wrong);
  if (fails_again(*wrong)) {
    text.command += " --with-new-sources";
    text.note = "takes what you have corrected; if nothing was, the same runs again";
  }
  return text;
}

}  // namespace dlflow
