#include "engine/plan/explain.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "engine/plan/changes.h"
#include "engine/plan/extension.h"
#include "engine/plan/installed.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

constexpr size_t kMaxLength = 60;

/// The nearest place before `at` where a character of UTF-8 begins.
size_t begin_of_character(const std::string& text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

std::string shortened(const std::string& text) {
  if (text.size() <= kMaxLength) return text;
  return text.substr(0, begin_of_character(text, kMaxLength)) + "…";
}

/// Shortens both values of a difference, so that the place where they differ remains.
Difference shortened(std::string what, std::string before, std::string now) {
  constexpr size_t kContext = 12;
  const auto [place, other] = std::ranges::mismatch(before, now);
  const size_t same = size_t(place - before.begin());
  if (std::max(before.size(), now.size()) > kMaxLength && same > 2 * kContext) {
    const size_t begin = begin_of_character(before, same - kContext);
    before = "…" + before.substr(begin);
    now = "…" + now.substr(begin);
  }
  return {std::move(what), shortened(before), shortened(now)};
}

std::string value_text(const Json& value) {
  if (value.is_null()) return "";
  return text_or_dump(value);
}

/// The value at `path` in a template, with expressions unevaluated; null if there is none.
const Json* source_at(const Template& value, std::span<const std::string> path) {
  const Json* at = &value.source();
  for (const std::string& key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &at->at(key);
  }
  return at;
}

/// "parameter epochs" if the value at `path` is nothing but ${{ params.epochs }}; else empty.
std::string origin(const Template& value, std::span<const std::string> path) {
  const Json* source = source_at(value, path);
  if (source == nullptr || !source->is_string()) return "";
  const Template expression(*source);
  const auto& references = expression.references();
  if (references.size() != 1 || references[0].path.size() != 2) return "";
  if (references[0].path[0] == "params") return "parameter " + references[0].path[1];
  if (references[0].path[0] == "matrix") return "matrix " + references[0].path[1];
  return "";
}

/// The name that people use for the part of a base at `path`.
std::string called(const std::vector<std::string>& path, const Step& step) {
  const std::string& part = path.front();
  const auto rest = std::span(path).subspan(1);
  std::string below = join(rest, ".");
  std::string from;
  if (part == "with") from = origin(step.with, rest);
  if (part == "environment") from = origin(step.environment, rest);
  if (!from.empty()) return from;
  if (part == "with") return below;
  if (part == "environment") return "variable " + below;
  if (part == "job") return "name";
  if (part == "profile") return below + " of the profile";
  if (part == "resources") return below;
  if (part == "params") return "parameter " + below;
  if (part == "files") return "content of " + below;
  if (part == "version") return "version of step kind";
  return below.empty() ? part : part + " " + below;
}

/// Shows the first changed line of a script.
Difference line_difference(const std::string& before, const std::string& now) {
  std::istringstream old_lines(before);
  std::istringstream new_lines(now);
  for (int line = 1;; ++line) {
    std::string a;
    std::string b;
    const bool more_old = bool(std::getline(old_lines, a));
    const bool more_new = bool(std::getline(new_lines, b));
    if (a != b || more_old != more_new || !more_old) {
      return shortened("line " + std::to_string(line) + " of the script", a, b);
    }
  }
}

Difference leaf_difference(const std::vector<std::string>& path, const Json& before,
                           const Json& now, const Step& step) {
  std::string old_text = value_text(before);
  std::string new_text = value_text(now);
  if (path.front() == "command" && before.is_string() && now.is_string() &&
      (old_text.find('\n') != std::string::npos || new_text.find('\n') != std::string::npos)) {
    return line_difference(old_text, new_text);
  }
  if (path.front() == "files") {
    old_text = old_text.substr(0, 8);
    new_text = new_text.substr(0, 8);
  }
  return shortened(called(path, step), std::move(old_text), std::move(new_text));
}

Json member(const Json& json, const std::string& key) {
  return json.is_object() ? json.value(key, Json()) : Json();
}

void collect(std::vector<std::string>& path, const Json& before, const Json& now, const Step& step,
             std::vector<Difference>& list) {
  if (before == now) return;
  const auto is_map = [](const Json& json) { return json.is_object() || json.is_null(); };
  if (!is_map(before) || !is_map(now)) {
    Difference difference = leaf_difference(path, before, now, step);
    if (std::find(list.begin(), list.end(), difference) == list.end()) {
      list.push_back(std::move(difference));
    }
    return;
  }
  std::set<std::string> keys;
  for (const Json* side : {&before, &now}) {
    for (const auto& [key, value] : side->items()) keys.insert(key);
  }
  for (const std::string& key : keys) {
    path.push_back(key);
    collect(path, member(before, key), member(now, key), step, list);
    path.pop_back();
  }
}

std::string in_words(const Difference& difference) {
  if (difference.before.empty()) return difference.what + ": " + difference.now + " is new";
  if (difference.now.empty()) return difference.what + ": " + difference.before + " is gone";
  return difference.what + ": " + difference.before + " → " + difference.now;
}

std::string in_words(const std::vector<Difference>& list) {
  std::vector<std::string> parts;
  parts.reserve(list.size());
  for (const Difference& difference : list) parts.push_back(escaped(in_words(difference)));
  return join(parts, ", ");
}

/// "depends on train: checkpoints"; only for parents that are not reused.
std::string waits_in_words(const Plan& plan, uint32_t job) {
  const Step& step = plan.workflow.steps[plan.jobs[job].step];
  std::set<std::string> open;
  plan.graph.each_parent(job, [&](uint32_t parent) {
    if (plan.jobs[parent].action == Action::Reuse) return;
    open.insert(plan.workflow.steps[plan.jobs[parent].step].name);
  });
  std::map<std::string, std::vector<std::string>> read;  // by step
  for (const Template* part : {&step.with, &step.run, &step.environment, &step.condition}) {
    for (const Reference& reference : part->references()) {
      const auto& path = reference.path;
      if (path.size() < 4 || path[0] != "steps" || !open.contains(path[1])) continue;
      std::vector<std::string>& names = read[path[1]];
      if (std::ranges::find(names, path[3]) == names.end()) names.push_back(path[3]);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [name, results] : read) parts.push_back(name + ": " + join(results, ", "));
  if (parts.empty()) parts.assign(open.begin(), open.end());
  return "depends on " + join(parts, "; ");
}

struct Nearest {
  std::string run;
  std::vector<Difference> differences;
  bool is_other = true;  ///< no earlier result is of this element
};

using AxisValue = std::tuple<uint32_t, std::string, std::string>;  // step, axis, value

/// The values that reused jobs have.
std::set<AxisValue> reused_values(const Plan& plan) {
  std::set<AxisValue> known;
  for (const auto& [number, result] : plan.reused) {
    const PlannedJob& job = plan.jobs[number];
    for (const auto& [axis, value] : (*plan.steps[job.step].elements)[job.element].items()) {
      known.emplace(job.step, axis, value.dump());
    }
  }
  return known;
}

/// "new: no result for lr=0.3", the values that are not `known`; or "new element".
std::string new_in_words(const Plan& plan, const PlannedJob& job,
                         const std::set<AxisValue>& known) {
  Json values = (*plan.steps[job.step].elements)[job.element];
  for (auto value = values.begin(); value != values.end();) {
    const bool is_known = known.contains({job.step, value.key(), value->dump()});
    value = is_known ? values.erase(value) : std::next(value);
  }
  return values.empty() ? "new element" : "new: no result for " + element_label(values);
}

std::optional<Nearest> nearest(const Plan& plan, uint32_t number, History& history) {
  const PlannedJob& job = plan.jobs[number];
  const Step& step = plan.workflow.steps[job.step];
  const Json now = Json::parse(fingerprint_base(plan, number));
  std::optional<Nearest> best;
  for (const EarlierBase& base :
       history.earlier(plan.workflow.name, step.name, job.name, plan.run)) {
    const Json before = parse_json(base.text);
    auto list = differences(before, now, step);
    const bool is_other = (!best || best->is_other) && !job.name.element().empty() &&
                          member(before, "job") != member(now, "job");
    if (!best || best->differences.size() > list.size()) best = Nearest{base.run, std::move(list)};
    best->is_other = is_other;
  }
  return best;
}

/// The fingerprint of a job that has not run yet, if its parents are all reused; else none.
Fingerprint known_fingerprint(const Plan& plan, uint32_t number) {
  bool known = true;
  plan.graph.each_parent(number, [&](uint32_t p) { known = known && plan.reused.contains(p); });
  if (!known) return {};
  const PlannedJob& job = plan.jobs[number];
  const auto left = [&](uint32_t parent) {
    return as_parent(plan, parent, plan.reused.at(parent));
  };
  return fingerprint(fingerprint_base(plan, number), (*plan.steps[job.step].elements)[job.element],
                     parents_as_seen(plan, number, left));
}

Explanation explain_job(const Plan& plan, uint32_t number, History& history,
                        const std::set<AxisValue>& known) {
  const PlannedJob& job = plan.jobs[number];
  Explanation result{.job = job.name,
                     .verdict = job.action,
                     .from = "",
                     .differences = {},
                     .reason = std::string(words(job.cause))};
  if (job.cause == Cause::NothingChanged) {
    const KnownResult& reused = plan.reused.at(number);
    result.from = history.maker(reused.run, reused.job);
    return result;
  }
  if (job.cause == Cause::Forced || job.cause == Cause::ActsOutside || job.cause == Cause::Always) {
    return result;
  }
  if (job.cause == Cause::WaitsForList) {
    result.reason = as_listed(plan.workflow.steps[job.step].matrix);
    return result;
  }
  for (const auto& [lock, packages] : planned_packages(plan, job.step)) {
    if (!packages.empty()) continue;
    result.verdict = Action::Run;
    result.reason = unknown_packages(lock);
    return result;
  }
  const std::optional<Nearest> earlier = nearest(plan, number, history);
  if (!earlier) {
    result.verdict = Action::Run;
    result.reason = words(Cause::NoResult);
    return result;
  }
  result.from = earlier->run;
  result.differences = earlier->differences;
  if (!earlier->differences.empty()) {
    result.verdict = Action::Run;
    result.reason =
        earlier->is_other ? new_in_words(plan, job, known) : in_words(earlier->differences);
  } else if (job.cause == Cause::WaitsForParents) {
    result.reason = waits_in_words(plan, number);
  } else {
    result.reason = history.refusal(known_fingerprint(plan, number), plan.run, job.name);
    if (result.reason.empty()) {
      result.reason = "its parents' results differ from those in " + earlier->run;
    }
  }
  return result;
}

}  // namespace

std::vector<Difference> differences(const Json& before, const Json& now, const Step& step) {
  std::vector<Difference> list;
  std::vector<std::string> path;
  collect(path, before, now, step, list);
  return list;
}

std::vector<Explanation> explain(const Plan& plan, History& history) {
  const std::set<AxisValue> known = reused_values(plan);
  std::vector<Explanation> explanations;
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    Explanation explanation = explain_job(plan, job, history, known);
    if (const auto asked = plan.changed.find(job); asked != plan.changed.end()) {
      explanation.reason +=
          "; resubmitted with " + words_of_change(asked->second, *plan.jobs[job].resources);
    }
    explanations.push_back(std::move(explanation));
  }
  return explanations;
}

}  // namespace dlflow
