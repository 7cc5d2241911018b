#include "engine/slurm/output.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "engine/batch/batch_job.h"
#include "engine/batch/tool_runner.h"
#include "engine/slurm/pending.h"

namespace dlflow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct StateName {
  BatchState state;
  std::string_view name;  ///< as printed by squeue's %T and sacct
  std::string_view code;  ///< as printed by squeue's %t
};

constexpr std::array<StateName, 25> kStates = {{
    {BatchState::Pending, "PENDING", "PD"},
    {BatchState::Configuring, "CONFIGURING", "CF"},
    {BatchState::Configuring, "POWER_UP_NODE", "PU"},
    {BatchState::Running, "RUNNING", "R"},
    {BatchState::Running, "RESIZING", "RS"},
    {BatchState::Running, "SIGNALING", "SI"},
    {BatchState::Suspended, "SUSPENDED", "S"},
    {BatchState::Suspended, "STOPPED", "ST"},
    {BatchState::Completing, "COMPLETING", "CG"},
    {BatchState::Completing, "STAGE_OUT", "SO"},
    {BatchState::Requeued, "REQUEUED", "RQ"},
    {BatchState::Requeued, "REQUEUE_FED", "RF"},
    {BatchState::Held, "REQUEUE_HOLD", "RH"},
    {BatchState::Held, "SPECIAL_EXIT", "SE"},
    {BatchState::Completed, "COMPLETED", "CD"},
    {BatchState::Failed, "FAILED", "F"},
    {BatchState::Cancelled, "CANCELLED", "CA"},
    {BatchState::Timeout, "TIMEOUT", "TO"},
    {BatchState::OutOfMemory, "OUT_OF_MEMORY", "OOM"},
    {BatchState::NodeFail, "NODE_FAIL", "NF"},
    {BatchState::Preempted, "PREEMPTED", "PR"},
    {BatchState::BootFail, "BOOT_FAIL", "BF"},
    {BatchState::Deadline, "DEADLINE", "DL"},
    {BatchState::Revoked, "REVOKED", "RV"},
    {BatchState::Unknown, "UNKNOWN", "?"},
}};

template <typename Number>
std::optional<Number> to_number(std::string_view text) {
  return is_number(text) ? number_from<Number>(text) : std::nullopt;
}

/// Replaces the tools' words for "nothing" by an empty text.
std::string said(std::string_view text) {
  constexpr std::array<std::string_view, 6> kNothing = {"(null)",        "None", "N/A",
                                                        "None assigned", "NONE", "Unknown"};
  text = trim(text);
  if (std::find(kNothing.begin(), kNothing.end(), text) != kNothing.end()) return "";
  return std::string(text);
}

/// Splits off `count` - 1 columns; the rest of the line is the last one.
std::optional<std::vector<std::string_view>> columns(std::string_view line, size_t count) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < count) {
    const size_t end = line.find('|');
    if (end == line.npos) return std::nullopt;
    parts.push_back(trim(line.substr(0, end)));
    line.remove_prefix(end + 1);
  }
  parts.push_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  return parts;
}

/// Calls `take` with each complete line.
template <typename Take>
void for_each_line(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == text.npos) return;  // truncated: its last column may be incomplete
    take(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

/// "812", "812_3", "812_[3-9%2]", "812+1" (a component of a heterogeneous job).
bool is_job_id(std::string_view id) {
  const std::string_view number = id.substr(0, id.find_first_of("_+"));
  if (!is_number(number) || number.size() > 10) return false;
  if (number.size() == id.size()) return true;
  const std::string_view rest = id.substr(number.size() + 1);
  return is_number(rest) || (id[number.size()] == '_' && rest.starts_with('['));
}

/// Collects jobs and expands array ranges. (sacct -D prints a line per requeue: the last wins.)
class ExpandedJobs {
 public:
  void add(BatchJob job) {
    const size_t bracket = job.id.find("_[");
    if (bracket == job.id.npos) return jobs_.put(std::move(job));
    const std::string prefix = job.id.substr(0, bracket + 1);
    const auto tasks = parse_array_range(std::string_view(job.id).substr(bracket + 1),
                                         kMaxExpandedTasks - num_expanded_);
    num_expanded_ += tasks.size();
    for (const uint32_t task : tasks) {
      job.id = prefix + std::to_string(task);
      jobs_.put(job);
    }
  }

  BatchJob* find(std::string_view id) { return jobs_.find(id); }
  std::vector<BatchJob> take() { return jobs_.take(); }

 private:
  BatchJobs jobs_;
  size_t num_expanded_ = 0;
};

/// Parses "3:9" into exit status 3 and signal 9, for a job that has ended.
void take_exit(BatchJob& job, std::string_view text) {
  const size_t colon = text.find(':');
  if (!is_over(job.state) || colon == text.npos) return;
  job.exit = to_number<int>(text.substr(0, colon));
  job.signal = to_number<int>(text.substr(colon + 1)).value_or(0);
  job.log_refused = job.signal == kOutputNotWritable;
}

/// The word after " KEY=" in a line of scontrol.
std::string_view value_of(std::string_view line, std::string_view key) {
  const std::string wanted = " " + std::string(key) + "=";
  const size_t at = line.find(wanted);
  if (at == line.npos) return {};
  line.remove_prefix(at + wanted.size());
  return line.substr(0, line.find(' '));
}

/// Parses ConsumedEnergyRaw; sites without counters report 0 or impossibly large values.
double energy(std::string_view text) {
  constexpr uint64_t kMost = uint64_t{1} << 50;
  const uint64_t joules = to_number<uint64_t>(text).value_or(0);
  return joules < kMost ? double(joules) : 0;
}

BatchJob sacct_job(const std::vector<std::string_view>& fields) {
  constexpr std::string_view kBy = " by ";
  BatchJob job;
  job.id = fields[0];
  job.state = slurm_state(fields[1]);
  if (const size_t by = fields[1].find(kBy); by != fields[1].npos) {
    job.cancelled_by = trim(fields[1].substr(by + kBy.size()));
  }
  take_exit(job, fields[2]);
  job.elapsed = whole_seconds(fields[3]);
  job.limit = whole_seconds(fields[4]);
  job.start = parse_slurm_time(fields[5]);
  job.end = parse_slurm_time(fields[6]);
  job.node = said(fields[7]);
  job.cpus = to_number<int>(fields[8]).value_or(0);
  job.cpu_time = parse_slurm_duration(fields[9]);
  job.max_memory_bytes = memory_from(fields[10]);
  job.energy_joules = energy(fields[12]);
  job.submitted = parse_slurm_time(fields[13]);
  job.name = fields[14];
  return job;
}

}  // namespace

BatchState slurm_state(std::string_view text) {
  const std::string_view word = trim(text).substr(0, trim(text).find(' '));  // CANCELLED by 1000
  const bool cut = word.ends_with('+');
  const std::string_view start = word.substr(0, word.size() - (cut ? 1 : 0));
  for (const auto& [state, name, code] : kStates) {
    const bool same = cut ? start.size() >= 5 && name.starts_with(start) : word == name;
    if (same || word == code) return state;
  }
  return BatchState::Unknown;
}

std::optional<std::string> submitted_id(std::string_view sbatch_stdout) {
  constexpr std::string_view kSentence = "Submitted batch job ";
  std::optional<std::string> id;
  for (const std::string& whole_line : split(sbatch_stdout, '\n')) {
    std::string_view line = trim(whole_line);
    if (line.starts_with(kSentence)) {
      line.remove_prefix(kSentence.size());
      line = line.substr(0, line.find(' '));  // "... on cluster alpha"
    }
    const std::string_view number = line.substr(0, line.find(';'));
    const std::string_view cluster = line.substr(std::min(line.size(), number.size() + 1));
    const auto value = to_number<uint32_t>(number);
    if (value && *value > 0 && cluster.find_first_of(" \t;") == cluster.npos) id = number;
  }
  return id;
}

std::vector<BatchJob> parse_squeue(std::string_view text) {
  ExpandedJobs jobs;
  for_each_line(text, [&jobs](std::string_view line) {
    const auto fields = columns(line, 11);
    if (!fields || !is_job_id(fields->front())) return;
    BatchJob job;
    job.id = (*fields)[0];
    job.state = slurm_state((*fields)[1]);
    job.elapsed = whole_seconds((*fields)[2]);
    job.limit = whole_seconds((*fields)[3]);
    job.start = parse_slurm_time((*fields)[4]);
    job.end = parse_slurm_time((*fields)[5]);
    job.node = said((*fields)[6]);
    job.dependency = said((*fields)[7]);
    job.reason = said((*fields)[8]);
    job.never_starts = job.reason == kNeverSatisfied;
    job.is_held = is_held_in_slurm(job);
    job.submitted = parse_slurm_time((*fields)[9]);
    job.name = (*fields)[10];
    jobs.add(std::move(job));
  });
  return jobs.take();
}

std::vector<BatchJob> parse_sacct(std::string_view text) {
  ExpandedJobs jobs;
  for_each_line(text, [&jobs](std::string_view line) {
    const auto fields = columns(line, 15);
    if (!fields) return;
    const std::string_view id = fields->front();
    if (const size_t dot = id.find('.'); dot != id.npos) {
      BatchJob* const job = jobs.find(id.substr(0, dot));
      const uint64_t tasks = std::max(to_number<uint32_t>((*fields)[11]).value_or(1), 1u);
      const uint64_t largest = memory_from((*fields)[10]);
      const uint64_t bytes = largest <= UINT64_MAX / tasks ? largest * tasks : 0;
      if (job == nullptr) return;
      // A cancelled job's signal is that of its batch step; a job that never began has none.
      if (job->state == BatchState::Cancelled && id.ends_with(".batch") && job->signal == 0) {
        take_exit(*job, (*fields)[2]);
      }
      job->max_memory_bytes = std::max(job->max_memory_bytes, bytes);
      // A step reports its nodes' energy: one has all of it if the job's line has none.
      job->energy_joules = std::max(job->energy_joules, energy((*fields)[12]));
    } else if (is_job_id(id)) {
      jobs.add(sacct_job(*fields));
    }
  });
  return jobs.take();
}

std::vector<BatchJob> parse_show_job(std::string_view text) {
  ExpandedJobs jobs;
  for_each_line(text, [&jobs](std::string_view line) {
    const std::string padded = " " + std::string(line);
    const std::string_view array = value_of(padded, "ArrayJobId");
    const std::string_view tasks = value_of(padded, "ArrayTaskId");  // "3", "3-9%2"
    BatchJob job;
    job.id = value_of(padded, "JobId");
    if (!array.empty()) {
      const bool one = is_number(tasks);
      job.id = std::string(array) + "_" + (one ? "" : "[") + std::string(tasks) + (one ? "" : "]");
    }
    if (!is_job_id(job.id)) return;
    job.name = value_of(padded, "JobName");
    job.submitted = parse_slurm_time(value_of(padded, "SubmitTime"));
    job.state = slurm_state(value_of(padded, "JobState"));
    job.reason = said(value_of(padded, "Reason"));
    job.end = parse_slurm_time(value_of(padded, "EndTime"));
    take_exit(job, value_of(padded, "ExitCode"));
    jobs.add(std::move(job));
  });
  return jobs.take();
}

std::optional<milliseconds> parse_slurm_duration(std::string_view text) {
  text = trim(text);
  milliseconds fraction{0};
  if (const size_t dot = text.find('.'); dot != text.npos) {  // TotalCPU has milliseconds
    const auto digits = to_number<int>(text.substr(dot + 1));
    if (!digits || text.size() - dot != 4) return std::nullopt;
    fraction = milliseconds(*digits);
    text = text.substr(0, dot);
  }
  int64_t days = 0;
  if (const size_t dash = text.find('-'); dash != text.npos) {
    const auto value = to_number<int32_t>(text.substr(0, dash));
    if (!value) return std::nullopt;
    days = *value;
    text = text.substr(dash + 1);
  }
  const std::vector<std::string> fields = split(text, ':');
  if (fields.size() < 2 || fields.size() > 3) return std::nullopt;
  int64_t total = 0;
  for (const std::string& field : fields) {
    const auto value = to_number<int32_t>(field);
    if (!value) return std::nullopt;
    total = total * 60 + *value;
  }
  return seconds(days * 86400 + total) + fraction;
}

std::optional<seconds> whole_seconds(std::string_view text) {
  const auto duration = parse_slurm_duration(text);
  if (!duration) return std::nullopt;
  return std::chrono::floor<seconds>(*duration);
}

std::optional<Time> parse_slurm_time(std::string_view text) {
  text = trim(text);
  if (const auto since_1970 = to_number<int64_t>(text)) {
    constexpr int64_t kYear3000 = 32'503'680'000;
    if (*since_1970 == 0 || *since_1970 > kYear3000) return std::nullopt;
    return Time(seconds(*since_1970));
  }
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd";
  if (text.size() != kForm.size()) return std::nullopt;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd' ? !digit : text[i] != kForm[i]) return std::nullopt;
  }
  const auto field = [text](size_t at, size_t size) {
    return *to_number<int>(text.substr(at, size));
  };
  using namespace std::chrono;
  const year_month_day date(year(field(0, 4)), month(unsigned(field(5, 2))),
                            day(unsigned(field(8, 2))));
  if (!date.ok()) return std::nullopt;
  return Time(sys_days(date)) + hours(field(11, 2)) + minutes(field(14, 2)) + seconds(field(17, 2));
}

bool is_transient(const Output& output) {
  constexpr std::array<std::string_view, 14> kPhrases = {"Unable to contact slurm",
                                                         "Socket timed out",
                                                         "Zero Bytes were transmitted",
                                                         "Communication connection failure",
                                                         "Communication shutdown failure",
                                                         "Message receive failure",
                                                         "Unexpected message received",
                                                         "Transport endpoint is not connected",
                                                         "Connection timed out",
                                                         "Connection refused",
                                                         "Connection reset",
                                                         "Connection forced closed",
                                                         "slurmctld is shutting down",
                                                         "Slurm backup controller in standby mode"};
  if (output.timed_out || output.status.signal != 0) return true;
  return output.status.code != 0 && contains_any(output.errors, kPhrases);
}

SubmitAnswer sbatch_answer(const Output& output, std::chrono::milliseconds time_limit) {
  constexpr std::array<std::string_view, 4> kTooMany = {"MaxSubmitJob", "GrpSubmitJob",
                                                        "temporarily unable to accept job",
                                                        "Resource temporarily unavailable"};
  return submit_answer("sbatch", output, submitted_id(output.text), is_transient(output), kTooMany,
                       time_limit);
}

JobAnswer job_answer(const Output& output) {
  constexpr std::array<std::string_view, 4> kGone = {"Invalid job id", "Job has already finished",
                                                     "already completing or completed",
                                                     "Job is not pending nor running"};
  if (output.status.code == 0 && output.errors.empty()) return {};
  if (contains_any(output.errors, kGone)) {
    return {JobAnswer::Kind::Gone, errors_of(output.errors)};
  }
  // The job was already requeued by a request whose answer was lost.
  if (output.errors.find("Job is pending execution") != std::string::npos) return {};
  // scancel and scontrol exit with 0 after some errors, and print harmless warnings.
  if (output.status.code == 0 && output.errors.find("error") == std::string::npos) return {};
  return {JobAnswer::Kind::Refused, failure("scontrol", output, {})};
}

}  // namespace dlflow
