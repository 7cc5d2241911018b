#include "engine/plan/fingerprint_base.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "engine/model/step_kinds.h"
#include "engine/plan/layout.h"
#include "engine/plan/places.h"
#include "engine/plan/surroundings.h"

namespace dlflow {
namespace {

/// Removes the keys of `with` that no result depends on.
Json decisive(Json with, const std::string& uses) {
  if (const StepKind* kind = find_step_kind(uses)) {
    for (const std::string& key : kind->neutral) with.erase(key);
  }
  return with;
}

Json image_identity(const Workflow& workflow, const std::string& name) {
  if (name.empty()) return {};
  for (const Image& image : workflow.images) {
    if (image.name != name) continue;
    const std::string& base = image.digest.empty() ? image.from : image.digest.text();
    return image.build.is_null() ? Json(base) : Json{{"base", base}, {"build", image.build}};
  }
  return name;
}

Json require_json(const std::vector<Requirement>& requirements) {
  Json json = Json::object();
  for (const Requirement& r : requirements) json[r.metric] = Json{{r.comparison, r.bound}};
  return json;
}

/// Leaves out signal, lead and the pattern of files: they only decide how a pass is cut short.
Json checkpoint_json(const std::optional<CheckpointPolicy>& policy) {
  if (!policy) return {};
  return {{"unit", int(policy->unit)}, {"every", policy->every}, {"keep", policy->keep}};
}

/// step -> the names of its metrics (\p part "metrics") or axes ("matrix") that `step` refers to.
Json referenced(const Step& step, std::string_view part) {
  std::map<std::string, std::set<std::string>> names;
  for (const Template* text : templates_of(step)) {
    for (const Reference& reference : text->references()) {
      const auto& path = reference.path;
      if (path.size() >= 4 && path[0] == "steps" && path[2] == part) {
        names[path[1]].insert(path[3]);
      }
    }
  }
  return Json(names);
}

/// "matrix.fold" -> its value, for known references in expressions that wait for parents or the
/// run. The base holds the text of such expressions, the same for all elements and parameters.
Json values_left(const Step& step, const Context& known) {
  Json values = Json::object();
  for (const Template* part : templates_of(step)) {
    for (const Reference& reference : part->references_left(known)) {
      const std::string name = to_string(reference);
      if (reference.path[0] != "params" && reference.path[0] != "matrix") continue;
      values[name] = Template(Json("${{ " + name + " }}")).evaluate(known);
    }
  }
  return values;
}

/// The steps that may fail and that `step` waits for without reading anything from them.
Json awaited(const Workflow& workflow, const Step& step) {
  std::set<std::string> taken;
  for (const Template* text : templates_of(step)) {
    for (const Reference& reference : text->references()) {
      if (reference.path.size() > 1 && reference.path[0] == "steps") {
        taken.insert(reference.path[1]);
      }
    }
  }
  Json names = Json::array();
  for (const Step& other : workflow.steps) {
    if (!other.allow_failure || taken.contains(other.name)) continue;
    if (std::ranges::find(step.needs, other.name) != step.needs.end()) names.push_back(other.name);
  }
  return names;
}

/// The resources of a job that its result may depend on. A command may look at any of them; a step
/// kind lists those that count. Walltime and memory decide whether there is a result, not which.
Json decisive_resources(const Step& step, const Resources& resources) {
  Json all = {{"ranks", resources.ranks},
              {"cpus_per_rank", resources.cpus_per_rank},
              {"gpus_per_rank", resources.gpus_per_rank}};
  // If the step sets no number, the job's place sets it; places are in no fingerprint.
  if (resources.ranks_per_node > 0) all["ranks_per_node"] = resources.ranks_per_node;
  const StepKind* kind = find_step_kind(step.uses);
  if (kind == nullptr) {
    if (resources.alone && step.launch == Launch::Ranks) all["alone"] = true;  // gets no rank
    return all;
  }
  Json decisive = Json::object();
  for (const std::string& name : kind->decisive_resources(step.with.source())) {
    if (all.contains(name)) decisive[name] = all.at(name);
  }
  return decisive;
}

/// A job with everything that its base depends on.
struct Subject {
  Subject(const Plan& in, uint32_t number)
      : plan(in),
        job(in.jobs[number]),
        step(in.workflow.steps[job.step]),
        planned(in.steps[job.step]),
        element((*planned.elements)[job.element]) {
    known.params = &in.workflow.params;
    known.matrix = &element;
  }

  Json with() const { return step.with.evaluate_known(known); }
  bool is_command() const { return step.uses.empty(); }

  const Plan& plan;
  const PlannedJob& job;
  const Step& step;
  const PlannedStep& planned;
  const Json& element;
  Context known;
};

bool has_own_with(const Subject& s) { return depends_on_element(s.step.with); }

/// A field of the base.
struct BaseField {
  std::string_view key;
  Json (*value)(const Subject&);  // null or empty: left out
  /// Whether it may differ between jobs of one step with the same resources and place; null: never.
  bool (*is_own)(const Subject&) = nullptr;
};

constexpr std::array<BaseField, 25> kBaseFields = {{
    {"awaited", [](const Subject& s) { return awaited(s.plan.workflow, s.step); }},
    {"axes", [](const Subject& s) { return referenced(s.step, "matrix"); }},
    {"checkpoint", [](const Subject& s) { return checkpoint_json(s.step.checkpoint); }},
    {"command", [](const Subject& s) { return s.step.run.evaluate_known(s.known); },
     [](const Subject& s) { return depends_on_element(s.step.run); }},
    {"condition", [](const Subject& s) { return s.step.condition.evaluate_known(s.known); },
     [](const Subject& s) { return depends_on_element(s.step.condition); }},
    {"environment", [](const Subject& s) { return s.step.environment.evaluate_known(s.known); },
     [](const Subject& s) { return depends_on_element(s.step.environment); }},
    {"files", [](const Subject& s) { return Json(files_of(s.plan, s.job, s.with())); },
     has_own_with},
    {"image", [](const Subject& s) { return image_identity(s.plan.workflow, s.step.image); }},
    {"job", [](const Subject& s) { return s.is_command() ? Json(s.job.name) : Json(); },
     [](const Subject& s) { return s.is_command(); }},
    {"kind", [](const Subject& s) { return Json(kind_name(s.step)); }},
    // Invalidates results of earlier versions, which reused these without looking there.
    {"late_places",
     [](const Subject& s) {
       return names_late_places(s.step.uses, s.with()) ? Json(true) : Json();
     },
     has_own_with},
    {"launch",
     [](const Subject& s) { return s.step.launch == Launch::Node ? Json("node") : Json(); }},
    {"matrix", [](const Subject& s) { return s.is_command() ? s.element : Json(); },
     [](const Subject& s) { return s.is_command(); }},
    {"metrics", [](const Subject& s) { return referenced(s.step, "metrics"); }},
    {"outputs", [](const Subject& s) { return Json(s.step.outputs); }},
    {"params", [](const Subject& s) { return s.planned.visible_params; }},
    {"profile",
     [](const Subject& s) {
       return surroundings_of(profile_of(s.plan, s.job), s.step, s.job.resources->ranks);
     }},
    {"require", [](const Subject& s) { return require_json(s.step.require); }},
    {"resources", [](const Subject& s) { return decisive_resources(s.step, *s.job.resources); }},
    {"reuse", [](const Subject& s) { return conditions_of(s.plan, s.job); },
     [](const Subject& s) { return s.planned.conditions.contains("programs"); }},
    {"run", [](const Subject& s) { return s.planned.sees_run ? Json(s.plan.run) : Json(); }},
    {"secrets", [](const Subject& s) { return Json(s.step.secrets); }},  // only their names
    {"values", [](const Subject& s) { return values_left(s.step, s.known); },
     [](const Subject& s) {
       return std::ranges::any_of(templates_of(s.step),
                                  [](const Template* t) { return depends_on_element(*t); });
     }},
    {"version", [](const Subject& s) { return Json(s.planned.version); }},
    {"with", [](const Subject& s) { return decisive(s.with(), s.step.uses); }, has_own_with},
}};
static_assert(std::ranges::is_sorted(kBaseFields, {}, &BaseField::key));

void append(std::string& text, const BaseField& field, const Subject& subject) {
  const Json value = field.value(subject);
  if (value.empty()) return;
  text.append(",\"").append(field.key).append("\":");
  append_dump(text, value);
}

bool share_fields(const PlannedJob& a, const PlannedJob& b) {
  return a.step == b.step && a.place == b.place &&
         (a.resources == b.resources || *a.resources == *b.resources);
}

}  // namespace

void FingerprintBases::share(uint32_t job) {
  const Subject subject(plan_, job);
  like_ = &subject.job;
  pieces_ = {Piece()};
  for (const BaseField& field : kBaseFields) {
    if (field.is_own == nullptr || !field.is_own(subject)) {
      append(pieces_.back().shared, field, subject);
    } else {
      pieces_.back().own = size_t(&field - kBaseFields.data());
      pieces_.emplace_back();
    }
  }
  pieces_.back().own = kBaseFields.size();
}

std::string FingerprintBases::of(uint32_t job) {
  if (plan_.steps[plan_.jobs[job].step].open) return "{}";  // its jobs are not known yet
  if (like_ == nullptr || !share_fields(*like_, plan_.jobs[job])) share(job);
  const Subject subject(plan_, job);
  std::string text;
  for (const Piece& piece : pieces_) {
    text += piece.shared;
    if (piece.own < kBaseFields.size()) append(text, kBaseFields[piece.own], subject);
  }
  text.front() = '{';
  return text += '}';
}

std::string fingerprint_base(const Plan& plan, uint32_t job) {
  return FingerprintBases(plan).of(job);
}

}  // namespace dlflow
