#include "engine/report/json.h"

#include <string>

#include "base/json_fields.h"
#include "engine/report/usage.h"

namespace dlflow {
namespace {

std::string_view word(Action action) {
  if (action == Action::DecideLater) return "decided later";
  return action == Action::Reuse ? "reused" : "runs";
}

Json seconds(const std::optional<std::chrono::milliseconds>& time) {
  return time ? Json(double(time->count()) / 1000) : Json();
}

Json to_json(const JobRow& job) {
  return {{"name", job.step},
          {"element", or_null(job.element)},
          {"state", name(job.state)},
          {"attempt", job.attempt},
          {"backend_id", or_null(job.backend_id)},
          {"node", or_null(job.node)},
          {"started", json_of(job.started)},
          {"ended", json_of(job.ended)},
          {"exit", json_of(job.exit)},
          {"reason", or_null(job.reason)},
          {"outputs", job.outputs.is_object() ? job.outputs : Json::object()},
          {"metrics", job.metrics.is_object() ? job.metrics : Json::object()},
          {"directory", job.directory},
          {"limit_s", json_of(job.limit)},
          {"limit_since", json_of(job.limit_since)},
          {"resources", asked_json(job)},
          {"used", usage_json(job)}};
}

Json run_json(const RunHead& run) {
  return {{"run", run.run},
          {"workflow", run.workflow},
          {"profile", run.profile},
          {"state", name(run.state)},
          {"started", to_rfc3339(run.started)},
          {"ended", json_of(run.ended)},
          {"directory", run.directory}};
}

}  // namespace

Json asked_json(const JobRow& job) {
  if (!job.asked) return {};
  const Resources& asked = *job.asked;
  return {{"ranks", asked.ranks},
          {"cpus_per_rank", asked.cpus_per_rank},
          {"gpus_per_rank", asked.gpus_per_rank},
          {"memory_bytes", or_null(asked.memory_bytes)},
          {"walltime_s", or_null(asked.walltime.count())}};
}

Json usage_json(const JobRow& job) {
  if (!job.usage) return {};
  const JobUsage& usage = *job.usage;
  return {{"elapsed_s", seconds(usage.elapsed)},
          {"cpu_s", seconds(usage.cpu_time)},
          {"cpu_efficiency", json_of(cpu_efficiency(job))},
          {"memory_bytes", or_null(usage.memory_bytes)},
          {"memory_efficiency", json_of(memory_efficiency(job))},
          {"energy_j", json_of(usage.energy_joules)}};
}

Json to_json(const RunStatus& status) {
  Json json = run_json(status);
  json["idle_s"] = seconds(status.idle);
  json["problem"] = or_null(status.problem);
  json["unaccounted"] = or_null(status.unaccounted);
  Json& steps = json["steps"] = Json::array();
  for (const JobRow& job : status.jobs) steps.push_back(to_json(job));
  return json;
}

Json to_json(const RunSummary& summary) {
  Json json = run_json(summary);
  Json& jobs = json["jobs"] = Json::object();
  for (const auto& [state, number] : summary.jobs) jobs[std::string(name(state))] = number;
  return json;
}

Json to_json(const Explanation& explanation) {
  Json differences = Json::array();
  for (const Difference& difference : explanation.differences) {
    differences.push_back(
        {{"what", difference.what}, {"before", difference.before}, {"now", difference.now}});
  }
  return {{"job", explanation.job},
          {"verdict", word(explanation.verdict)},
          {"from", or_null(explanation.from)},
          {"reason", explanation.reason},
          {"differences", std::move(differences)}};
}

Json to_json(const Plan& plan, std::span<const Explanation> answers) {
  Json jobs = Json::array();
  for (uint32_t i = 0; i < plan.jobs.size(); ++i) {
    const PlannedJob& job = plan.jobs[i];
    Json needs = Json::array();
    for (const auto [first, count] : plan.graph.parents(i)) {
      for (uint32_t p = first; p < first + count; ++p) needs.push_back(plan.jobs[p].name);
    }
    jobs.push_back({{"job", job.name},
                    {"name", plan.workflow.steps[job.step].name},
                    {"element", or_null(std::string(job.name.element()))},
                    {"action", word(answers.empty() ? job.action : answers[i].verdict)},
                    {"reason", answers.empty() ? words(job.cause) : answers[i].reason},
                    {"needs", std::move(needs)}});
  }
  return {
      {"workflow", plan.workflow.name}, {"profile", plan.profile.name}, {"jobs", std::move(jobs)}};
}

}  // namespace dlflow
