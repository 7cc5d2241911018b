#include "engine/report/json.h"

#include <string>

#include "engine/report/usage.h"

namespace dlflow {
namespace {

Json optional_time(const std::optional<Time>& time) {
  return time ? Json(to_rfc3339(*time)) : Json();
}

Json optional_text(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string_view word(Action action) {
  switch (action) {
    case Action::Run:
      return "runs";
    case Action::Reuse:
      return "reused";
    case Action::DecideLater:
      break;
  }
  return "decided later";
}

Json optional_number(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

double seconds(std::chrono::milliseconds time) { return double(time.count()) / 1000; }

Json asked_json(const JobRow& job) {
  if (!job.asked) return {};
  const Resources& asked = *job.asked;
  const auto or_null = [](auto number) { return number == 0 ? Json() : Json(number); };
  return {{"ranks", asked.ranks},
          {"cpus_per_rank", asked.cpus_per_rank},
          {"gpus_per_rank", asked.gpus_per_rank},
          {"memory_bytes", or_null(asked.memory_bytes)},
          {"walltime_s", or_null(asked.walltime.count())}};
}

Json usage_json(const JobRow& job) {
  if (!job.usage) return {};
  const JobUsage& usage = *job.usage;
  return {{"elapsed_s", usage.elapsed ? Json(seconds(*usage.elapsed)) : Json()},
          {"cpu_s", usage.cpu_time ? Json(seconds(*usage.cpu_time)) : Json()},
          {"cpu_efficiency", optional_number(cpu_efficiency(job))},
          {"memory_bytes", usage.memory_bytes == 0 ? Json() : Json(usage.memory_bytes)},
          {"memory_efficiency", optional_number(memory_efficiency(job))},
          {"energy_j", optional_number(usage.energy_joules)}};
}

Json to_json(const JobRow& job) {
  return {{"name", job.step},
          {"element", optional_text(job.element)},
          {"state", name(job.state)},
          {"attempt", job.attempt},
          {"backend_id", optional_text(job.backend_id)},
          {"node", optional_text(job.node)},
          {"started", optional_time(job.started)},
          {"ended", optional_time(job.ended)},
          {"exit", job.exit ? Json(*job.exit) : Json()},
          {"reason", optional_text(job.reason)},
          {"outputs", job.outputs.is_object() ? job.outputs : Json::object()},
          {"metrics", job.metrics.is_object() ? job.metrics : Json::object()},
          {"directory", job.directory},
          {"limit_s", job.limit ? Json(job.limit->count()) : Json()},
          {"limit_since", optional_time(job.limit_since)},
          {"resources", asked_json(job)},
          {"used", usage_json(job)}};
}

}  // namespace

Json to_json(const RunStatus& status) {
  Json steps = Json::array();
  for (const JobRow& job : status.jobs) steps.push_back(to_json(job));
  return {{"run", status.run},
          {"workflow", status.workflow},
          {"profile", status.profile},
          {"state", name(status.state)},
          {"started", to_rfc3339(status.started)},
          {"ended", optional_time(status.ended)},
          {"directory", status.directory},
          {"problem", optional_text(status.problem)},
          {"unaccounted", optional_text(status.unaccounted)},
          {"steps", std::move(steps)}};
}

Json to_json(const RunSummary& summary) {
  Json jobs = Json::object();
  for (const auto& [state, number] : summary.jobs) jobs[std::string(name(state))] = number;
  return {{"run", summary.run},
          {"workflow", summary.workflow},
          {"profile", summary.profile},
          {"state", name(summary.state)},
          {"started", to_rfc3339(summary.started)},
          {"ended", optional_time(summary.ended)},
          {"directory", summary.directory},
          {"jobs", std::move(jobs)}};
}

Json to_json(const Explanation& explanation) {
  Json differences = Json::array();
  for (const Difference& difference : explanation.differences) {
    differences.push_back(
        {{"what", difference.what}, {"before", difference.before}, {"now", difference.now}});
  }
  return {{"job", explanation.job},
          {"verdict", word(explanation.verdict)},
          {"from", optional_text(explanation.from)},
          {"reason", explanation.reason},
          {"differences", std::move(differences)}};
}

Json to_json(const Plan& plan) {
  Json jobs = Json::array();
  for (uint32_t i = 0; i < plan.jobs.size(); ++i) {
    const PlannedJob& job = plan.jobs[i];
    Json needs = Json::array();
    for (const auto [first, count] : plan.graph.parents(i)) {
      for (uint32_t p = first; p < first + count; ++p) needs.push_back(plan.jobs[p].name);
    }
    jobs.push_back({{"job", job.name},
                    {"name", plan.workflow.steps[job.step].name},
                    {"element", optional_text(std::string(job.label()))},
                    {"action", word(job.action)},
                    {"reason", words(job.cause)},
                    {"needs", std::move(needs)}});
  }
  return {
      {"workflow", plan.workflow.name}, {"profile", plan.profile.name}, {"jobs", std::move(jobs)}};
}

}  // namespace dlflow
