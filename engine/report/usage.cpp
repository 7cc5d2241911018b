#include "engine/report/usage.h"

#include <algorithm>

namespace dlflow {

using std::chrono::milliseconds;

std::optional<JobUsage> recorded_usage(std::span<const JobEvent> events) {
  if (events.empty()) return std::nullopt;
  const int attempt =
      std::max_element(events.begin(), events.end(), [](const auto& a, const auto& b) {
        return a.attempt < b.attempt;
      })->attempt;
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

}  // namespace dlflow
