#include "engine/plan/changes.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/places.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> known_keys = {"walltime", "memory", "cpus_per_rank", "gpus_per_rank",
                                             "ranks"};

fs::path changes_file(const fs::path& run_directory) { return run_directory / "changes.jsonl"; }

[[noreturn]] void throw_unknown(const std::string& key, const Workflow& workflow,
                                const std::string& anew) {
  if (workflow.params.contains(key)) {
    throw Error(Errc::InvalidInput,
                "'" + key +
                    "' is a parameter, which cannot change within a run: resubmit changes only the "
                    "resources of jobs.\n       `" +
                    anew + " --set " + key +
                    "=…` starts a new run, which reuses every result that this does not change.");
  }
  const std::string advice = did_you_mean(key, known_keys);
  throw Error(Errc::InvalidInput,
              "--set: resources have no '" + key + "'" +
                  (advice.empty() ? "; known: " + join(known_keys, ", ") : advice));
}

/// A number if all of `text` is one: "4", but not "40m".
Json scalar(const std::string& text) {
  const auto number = number_from<int64_t>(text);
  return number ? Json(*number) : Json(text);
}

Resources changed(const Resources& resources, const Json& settings) {
  Json json = to_json(resources);
  json.update(settings);
  return resources_from_json(json);
}

/// True only for step kinds; the user decides whether a command may run with other ranks.
bool ranks_decide_result(const Step& step) {
  const StepKind* kind = find_step_kind(step.uses);
  if (kind == nullptr) return false;
  const std::vector<std::string> decisive = kind->decisive_resources(step.with.source());
  return std::find(decisive.begin(), decisive.end(), "ranks") != decisive.end();
}

std::string size_or_none(uint64_t bytes) { return bytes == 0 ? "not said" : format_size(bytes); }

std::string time_or_none(std::chrono::seconds time) {
  return time.count() == 0 ? "not said" : format_duration(time);
}

}  // namespace

Json resource_settings(const std::vector<std::string>& words, const Workflow& workflow,
                       const std::string& anew) {
  Json settings = Json::object();
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(Errc::InvalidInput, "--set takes KEY=VALUE, not '" + word + "'");
    }
    const std::string key = word.substr(0, equals);
    if (std::find(known_keys.begin(), known_keys.end(), key) == known_keys.end())
      throw_unknown(key, workflow, anew);
    settings[key] = scalar(word.substr(equals + 1));
  }
  changed({}, settings);  // throws for a bad value
  return settings;
}

void change_resources(Plan& plan, std::span<const uint32_t> jobs, const Json& settings) {
  for (const uint32_t job : jobs) {
    PlannedJob& planned = plan.jobs[job];
    const Resources now = changed(*planned.resources, settings);
    const Step& step = plan.workflow.steps[planned.step];
    if (now.ranks != planned.resources->ranks && ranks_decide_result(step)) {
      throw Error(Errc::InvalidInput,
                  "the result of step '" + step.name +
                      "' depends on the number of ranks, so 'ranks' cannot be changed within a "
                      "run.\n       `dlflow run " +
                      shell_quote(plan.workflow.file) +
                      "` with other ranks starts a new run, which reuses every result that this "
                      "does not change; to change only other steps here, name one with `--step`.");
    }
    plan.changed.emplace(job, *planned.resources);
    planned.resources = std::make_shared<const Resources>(now);
  }
  place_jobs(plan);
}

void record_change(const Plan& plan, std::span<const uint32_t> jobs, const Json& settings,
                   Time at) {
  Json names = Json::array();
  for (const uint32_t job : jobs) names.push_back(plan.jobs[job].name);
  AppendFile file(changes_file(plan.directory));
  file.append(Json({{"at", to_rfc3339(at)}, {"set", settings}, {"jobs", std::move(names)}}).dump());
  file.sync();
  sync_directory(plan.directory);
}

void apply_changes(Plan& plan) {
  const auto text = read_file_if_exists(changes_file(plan.directory));
  if (!text) return;
  std::unordered_map<std::string, uint32_t> number_of;
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) number_of[plan.jobs[job].name] = job;
  std::vector<std::string> lines = split(*text, '\n');
  lines.pop_back();  // empty, or torn
  for (const std::string& line : lines) {
    const Json change = parse_json(line);
    if (!change.is_object() || !change.contains("jobs") || !change.contains("set")) continue;
    std::vector<uint32_t> jobs;
    for (const Json& name : change["jobs"]) {
      const auto found = number_of.find(name.get<std::string>());
      if (found != number_of.end()) jobs.push_back(found->second);
    }
    change_resources(plan, jobs, change["set"]);
  }
}

std::string words_of_change(const Resources& before, const Resources& now) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* key, const std::string& from, const std::string& to) {
    if (from != to) parts.push_back(std::string(key) + " " + from + " → " + to);
  };
  add("walltime", time_or_none(before.walltime), time_or_none(now.walltime));
  add("memory", size_or_none(before.memory_bytes), size_or_none(now.memory_bytes));
  add("cpus_per_rank", std::to_string(before.cpus_per_rank), std::to_string(now.cpus_per_rank));
  add("gpus_per_rank", std::to_string(before.gpus_per_rank), std::to_string(now.gpus_per_rank));
  add("ranks", std::to_string(before.ranks), std::to_string(now.ranks));
  return join(parts, ", ");
}

}  // namespace dlflow
