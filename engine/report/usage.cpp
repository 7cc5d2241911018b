#include "engine/report/usage.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "engine/model/profile_text.h"

namespace dlflow {
namespace {

using std::chrono::milliseconds;

constexpr double kReserve = 1.3;  // the recommended request relative to the largest use
constexpr std::chrono::minutes kLong(10);

std::string in_percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

/// The longest pass of the job.
milliseconds longest_pass(std::span<const JobSpan> spans) {
  milliseconds longest{0};
  for (const JobSpan& span : spans) {
    if (span.running && span.end) longest = std::max(longest, *span.end - span.begin);
  }
  return longest;
}

void about_processors(const JobRow& job, std::vector<std::string>& advice) {
  const auto used = cpu_efficiency(job);
  const int asked = job.asked->cpus_per_rank;
  if (!used || *used >= 0.5 || asked < 2 || *job.usage->elapsed < kLong) return;
  const int enough = std::max(1, int(std::ceil(*used * asked * kReserve)));
  if (enough >= asked) return;
  advice.push_back("cores were busy " + in_percent(*used) +
                   " of the time: cpus_per_rank: " + std::to_string(enough) + " may be enough");
}

void about_memory(const JobRow& job, std::vector<std::string>& advice) {
  const auto used = memory_efficiency(job);
  if (!used) return;
  constexpr uint64_t kStep = uint64_t{512} << 20;
  const double wanted = double(job.usage->memory_bytes) * kReserve;
  const uint64_t enough = std::max<uint64_t>(1, uint64_t(std::ceil(wanted / double(kStep)))) *
                          kStep;  // a multiple of half a GiB
  const std::string write = "memory: " + yaml_size(enough);
  if (job.state == JobState::Failed || *used > 0.95) {
    if (*used > 0.9)
      advice.push_back(in_percent(*used) + " of its memory was used: write " + write);
    return;
  }
  if (*used < 0.5 && enough < job.asked->memory_bytes) {
    advice.push_back("used " + in_percent(*used) + " of its memory: " + write +
                     " leaves a reserve");
  }
}

void about_time(const JobRow& job, std::span<const JobSpan> spans, bool in_queue,
                std::vector<std::string>& advice) {
  const std::chrono::seconds asked = job.asked->walltime;
  const milliseconds longest = longest_pass(spans);
  if (asked.count() == 0 || longest.count() == 0) return;
  if (job.state == JobState::TimedOut) {
    advice.push_back("its walltime was too short: ask for more, or save with `checkpoint:`");
  } else if (in_queue && satisfies_dependents(job.state) && asked > kLong && longest < asked / 4) {
    const auto enough = std::max<int64_t>(
        5, int64_t(std::ceil(double(longest.count()) * kReserve / 60'000 / 5)) * 5);
    advice.push_back("ran " + format_duration(longest) + " of " + format_duration(asked) +
                     ": walltime: " + std::to_string(enough) + "m may start sooner");
  }
}

}  // namespace

std::optional<JobUsage> recorded_usage(std::span<const JobEvent> events) {
  if (events.empty()) return std::nullopt;
  const int attempt = std::ranges::max_element(events, {}, &JobEvent::attempt)->attempt;
  std::optional<JobUsage> usage;
  std::optional<Time> began;
  for (const JobEvent& event : events) {
    if (event.attempt != attempt) continue;
    if (event.state == JobState::Running) began = event.at;
    if (!event.used) continue;
    if (!usage) usage = JobUsage{.elapsed = milliseconds(0), .cpu_time = milliseconds(0)};
    if (began) *usage->elapsed += event.at - *began;
    *usage->cpu_time += event.used->cpu_time;
    usage->memory_bytes = std::max(usage->memory_bytes, event.used->memory_bytes);
    began.reset();
  }
  return usage;
}

std::optional<double> cpu_efficiency(const JobRow& job) {
  if (!job.usage || !job.usage->elapsed || !job.usage->cpu_time) return std::nullopt;
  int cpus = job.usage->cpus;
  if (cpus == 0 && job.asked) cpus = job.asked->ranks * job.asked->cpus_per_rank;
  const double had = double(job.usage->elapsed->count()) * cpus;
  if (had <= 0) return std::nullopt;
  return double(job.usage->cpu_time->count()) / had;
}

std::optional<double> memory_efficiency(const JobRow& job) {
  if (!job.usage || !job.asked || job.usage->memory_bytes == 0) return std::nullopt;
  if (job.asked->memory_bytes == 0) return std::nullopt;
  return double(job.usage->memory_bytes) / double(job.asked->memory_bytes);
}

std::vector<std::string> advice_for(const JobRow& job, std::span<const JobSpan> spans,
                                    bool in_queue) {
  std::vector<std::string> advice;
  if (!job.asked || !is_final(job.state)) return advice;
  if (job.usage) {
    about_processors(job, advice);
    about_memory(job, advice);
  }
  about_time(job, spans, in_queue, advice);
  return advice;
}

}  // namespace dlflow
