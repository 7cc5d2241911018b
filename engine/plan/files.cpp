#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/local_files.h"
#include "base/process.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/url.h"
#include "engine/model/forms.h"
#include "engine/model/step_kinds.h"
#include "engine/model/tools.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/inherited.h"
#include "engine/plan/installed.h"
#include "engine/plan/layout.h"
#include "engine/plan/places.h"
#include "engine/plan/programs.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/surroundings.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Scripts are searched for the parameters they read; data files are not.
constexpr uint64_t kMaxScriptBytes = uint64_t{1} << 20;

/// Stands for a hash in PlannedStep::conditions.
constexpr const char* kUnknown = "unknown";

/// `name` itself, or the files below it if it is a folder, with names as the workflow would give
/// them. Leaves out runs: each new run would change the input, and nothing would ever be reused.
std::vector<std::string> expand(const Plan& plan, const Step& step, const std::string& name) {
  const fs::path path = plan.base / name;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {name};
  std::vector<std::string> files;
  for (const auto& entry : entries_below(path, plan.profile.runs, OfTools::LeftOut)) {
    if (entry.is_other()) {
      throw_at(plan.workflow, step.location_of("inputs"),
               entry.path().string() +
                   " is a pipe, a socket or a device, which cannot be copied into a run");
    }
    if (!entry.is_regular_file()) continue;
    files.push_back((fs::path(name) / entry.path().lexically_relative(path)).string());
    if (find_invalid_utf8(files.back()) != std::string::npos) {
      throw_at(plan.workflow, step.location_of("inputs"),
               "the name of " + escaped(entry.path().string()) +
                   " is not UTF-8, and cannot be written into the run's plan; rename the file");
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void add_file(Plan& plan, FileHashes& hashes, const Step& step, const std::string& key,
              const std::string& name) {
  if (plan.files.contains(name)) return;
  try {
    plan.files.emplace(name, content_of(plan.base / name, hashes));
  } catch (const Error& error) {
    throw_at(plan.workflow, step.location_of(key), error.what());
  }
}

/// Reads an input outside of the workflow's folder, which jobs read in place.
void read_data(Plan& plan, FileHashes& hashes, const Step& step, const DataInput& data,
               std::vector<std::string>& texts) {
  const auto [files, others] = data_at(data.path);
  if (files.empty()) {
    throw_at(plan.workflow, step.location_of("inputs"), data.path + ": there is no such file");
  }
  for (const LocalFile& file : files) {
    if (!fs::is_regular_file(file.path)) {
      throw_at(plan.workflow, step.location_of("inputs"),
               file.path.string() +
                   " is a pipe, a socket or a device, whose content cannot be compared; " +
                   "let the step open it without naming it in `inputs`");
    }
    if (fs::file_size(file.path) <= kMaxScriptBytes) texts.push_back(read_file(file.path));
  }
  if (!data.content_counts || plan.data.contains(data.path)) return;
  plan.outside.emplace(data.path, data_identity(data.path));
  Sha256 hash;
  for (const LocalFile& file : files) {
    hash.update(name_in_line(file.name) + " " + content_of(file.path, hashes) + "\n");
  }
  for (const std::string& other : others) hash.update(other + "\n");
  plan.data.emplace(data.path, hash.hex());
}

/// The variables that the plan gives to jobs. An existing run keeps those that it was created with.
Variables planned_variables(const Plan& plan) {
  if (!plan.directory.empty()) {
    if (auto frozen = read_variables(plan.directory)) return std::move(*frozen);
  }
  return variables_from(Provider::Plan, inherited_by(plan.profile, plan.workflow.steps));
}

/// The value of the variable in a step's program, if the program gets it.
std::string variable_of(const Plan& plan, const std::string& name) {
  for (const Variables& variables : {plan.profile.environment, planned_variables(plan)}) {
    if (const auto given = variables.find(name); given != variables.end()) return given->second;
  }
  return environment_variable(name.c_str());
}

const Json& element_of(const Plan& plan, const PlannedJob& job) {
  return (*plan.steps[job.step].elements)[job.element];
}

/// Evaluates a text of a step that decides which program runs. Throws if the text depends on a
/// parent or on a step's list. \param key  of the step, \param what  its name in the message
std::string known_text(const Plan& plan, const Step& step, const Json& element, const Json& word,
                       const std::string& key, const std::string& what) {
  const Template text(word);
  const bool is_late = std::ranges::any_of(text.references(), [&](const Reference& reference) {
    if (reference.path[0] != "matrix") return reference.path[0] != "params";
    return std::ranges::any_of(step.matrix.axes, [&](const MatrixAxis& axis) {
      return axis.name == reference.path[1] && axis.source;
    });
  });
  if (is_late) {
    throw_at(plan.workflow, step.location_of(key),
             what + " of step '" + step.name + "' is decided by another step or by the run, but " +
                 "`reuse: {program: true}` must find its program beforehand; let parameters or a " +
                 "matrix decide it, or leave `program` out");
  }
  const Context known{.params = &plan.workflow.params, .matrix = &element};
  const Json value = text.evaluate_known(known);
  return text_or_dump(value);
}

/// The first word of `run: [..]`.
std::string program_of(const Plan& plan, const Step& step, const Json& element) {
  return known_text(plan, step, element, step.run.source().front(), "run", "the program");
}

/// The PATH that is searched for the program of a step.
std::string path_of(const Plan& plan, const Step& step, const Json& element) {
  const Json own = step.environment.source().value("PATH", Json());
  if (!own.is_string()) return variable_of(plan, "PATH");
  return known_text(plan, step, element, own, "env", "PATH");
}

/// "tool in /bin:/usr/bin": decides which program an element runs.
std::string search_of(const Plan& plan, const Step& step, const Json& element) {
  return program_of(plan, step, element) + " in " + path_of(plan, step, element);
}

/// Whether lines that run before the program may change the PATH that is searched for it. They
/// cannot in a container, which has the PATH of its image.
bool is_searched_elsewhere(const Plan& plan, const PlannedJob& job) {
  const Step& step = plan.workflow.steps[job.step];
  const bool has_lines = !step.tools.empty() || !profile_of(plan, job).setup.empty();
  return has_lines && step.image.empty() &&
         program_of(plan, step, element_of(plan, job)).find('/') == std::string::npos;
}

/// The present values of the conditions in a step's `reuse:`.
Json reuse_conditions(const Plan& plan, FileHashes& hashes, uint32_t number) {
  const Step& step = plan.workflow.steps[number];
  Json conditions = Json::object();
  for (const std::string& name : step.reuse.environment) {
    conditions["environment"][name] = variable_of(plan, name);
  }
  if (!step.reuse.program) return conditions;
  Json& programs = conditions["programs"];
  for (const Json& element : *plan.steps[number].elements) {
    const std::string search = search_of(plan, step, element);
    if (programs.contains(search)) continue;
    programs[search] =
        program_identity(program_of(plan, step, element), path_of(plan, step, element), hashes);
  }
  return conditions;
}

/// Whether the profile or the step itself sets the variable.
bool is_given(const Profile& profile, const Step& step, const std::string& name) {
  return profile.environment.contains(name) || step.secrets.contains(name) ||
         step.environment.source().contains(name);
}

/// name -> SHA-256 of the value, for each variable that a command gets because of `inherit:`:
/// programs may read variables without naming them. For a secret, keeps the hash from planning.
Json inherited_readings(const Plan& plan, const Step& step, const Json& before) {
  Json identities = Json::object();
  const std::vector<std::string> further = inherited_by(plan.profile, step);
  if (!step.uses.empty() || further.empty()) return identities;
  for (const auto& [name, value] : added_by(planned_variables(plan), further)) {
    if (!is_given(plan.profile, step, name)) identities[name] = sha256_hex(value);
  }
  for (const std::string& name : plan.secret_variables) {
    if (before.contains(name)) identities[name] = before.at(name);
  }
  return identities;
}

/// The tools that a step's `environment:` loads, and the packages installed there now.
Json tools_found(const Plan& plan, FileHashes& hashes, const Step& step) {
  Json found = step.tools;
  const fs::path lock = lock_of_tools(step.tools, plan.base);
  if (lock.empty()) return found;
  std::string packages = installed_packages(lock, hashes);
  if (packages.empty() && step.tools.contains("lock")) {
    throw_at(plan.workflow, step.locations.at("environment.lock"),
             "environment.lock of step '" + step.name + "': there is no file " + lock.string());
  }
  found["lock"] = packages.empty() ? kUnknown : std::move(packages);
  const std::string installed = installed_packages(venv_beside_lock(step.tools, plan.base), hashes);
  if (!installed.empty()) found["installed"] = installed;
  return found;
}

void read_inputs(Plan& plan, FileHashes& hashes, uint32_t number) {
  const Step& step = plan.workflow.steps[number];
  PlannedStep& planned = plan.steps[number];
  std::vector<std::string> texts;
  for (const std::string& input : step.inputs) {
    for (std::string& name : expand(plan, step, input)) {
      add_file(plan, hashes, step, "inputs", name);
      std::error_code ignored;
      if (fs::file_size(plan.base / name, ignored) <= kMaxScriptBytes) {
        texts.push_back(read_file(plan.base / name));
      }
      planned.inputs.push_back(std::move(name));
    }
  }
  for (const DataInput& data : step.data) read_data(plan, hashes, step, data, texts);
  const Json before = planned.conditions.value("inherited", Json::object());
  planned.conditions = reuse_conditions(plan, hashes, number);
  if (copies_sources(step.uses)) {
    for (const auto& [name, value] :
         inherited_servers(plan.profile, step, planned_variables(plan))) {
      planned.conditions["environment"][name] = value;
    }
  }
  const Json inherited = inherited_readings(plan, step, before);
  if (!inherited.empty()) planned.conditions["inherited"] = inherited;
  if (!step.tools.empty()) planned.conditions["tools"] = tools_found(plan, hashes, step);
  planned.visible_params = visible_params(step, params_as_written(plan.workflow), texts);
  planned.sees_run = sees_run(step, texts);
}

/// The place of data as an absolute path or a URL.
std::string absolute_place(const Plan& plan, const std::string& name) {
  if (parse_file_url(name)) return name;
  return (plan.base / name).lexically_normal().string();
}

/// A missing file is no error here: it may appear before the step runs.
void add_outside(Plan& plan, const std::string& name) {
  if (plan.outside.contains(name)) return;
  plan.outside.emplace(name, data_identity(absolute_place(plan, name)));
}

/// The file, written by dlflow-train --tune, that sets the order in which ranks add; only for a
/// step whose bits depend on it. Empty for other steps, or if the place is unknown.
std::string rules_of_sums(const Plan& plan, const Step& step) {
  constexpr const char* kVariable = "DLFLOW_COLLECTIVES";
  const StepKind* kind = find_step_kind(step.uses);
  if (kind == nullptr) return "";
  const auto decisive = kind->decisive_resources(step.with.source());
  if (std::ranges::find(decisive, "ranks_per_node") == decisive.end()) return "";
  const auto of_profile = plan.profile.environment.find(kVariable);
  const fs::path file = of_profile != plan.profile.environment.end()
                            ? fs::path(of_profile->second)
                            : cache_directory(plan.profile) / "collectives.txt";
  const Json own = step.environment.source().value(kVariable, Json(file.string()));
  const fs::path place = own.is_string() ? own.get<std::string>() : "";
  return place.is_absolute() ? place.string() : "";
}

void read_rules_of_sums(Plan& plan, FileHashes& hashes, uint32_t number) {
  const std::string rules = rules_of_sums(plan, plan.workflow.steps[number]);
  if (rules.empty()) return;
  add_outside(plan, rules);
  std::error_code none;
  if (!fs::is_regular_file(rules, none)) return;
  plan.steps[number].conditions["collectives"] = hashes.sha256(rules);
}

/// The local files that a step stages without a hash or manifest in the workflow.
std::vector<std::string> unpinned_sources(const std::string& uses, const Json& with) {
  std::vector<std::string> urls;
  if (!copies_sources(uses)) return urls;
  for (const Json& source : with.value(find_step_kind(uses)->sources, Json::array())) {
    if (!source.is_object() || source.contains("sha256") || source.contains("manifest")) continue;
    std::string url = source.value("url", "");
    if (parse_file_url(url)) urls.push_back(std::move(url));
  }
  return urls;
}

/// The executable local files that a step stages with a hash, which does not cover the executable
/// bit.
std::vector<std::string> pinned_executables(const std::string& uses, const Json& with) {
  std::vector<std::string> urls;
  if (!copies_sources(uses)) return urls;
  for (const Json& source : with.value(find_step_kind(uses)->sources, Json::array())) {
    if (!source.is_object() || !source.contains("sha256")) continue;
    if (source.value("unpack", "none") != "none") continue;
    std::string text = source.value("url", "");
    const auto url = parse_file_url(text);
    if (url && url->is_file() && is_executable(url->path)) urls.push_back(std::move(text));
  }
  return urls;
}

/// The files that one element's `with:` names.
struct NamedFiles {
  std::vector<std::pair<std::string, std::string>> frozen;  ///< key, file
  std::vector<std::string> outside;                         ///< paths and URLs
};

PathRole role_of(const Form& form) {
  if (form.exists != Form::Exists::Unchecked) return PathRole::Frozen;
  return &form == &kPathForm ? PathRole::Outside : PathRole::None;
}

bool is_known(const Json& text) {
  return text.get_ref<const std::string&>().find("${{") == std::string::npos;
}

/// Whether `text` will be an output of another step, or a place in one, as far as can be seen.
bool lies_in_output(const std::string& text) {
  constexpr std::array<std::string_view, 3> kComposed = {"format(", "join(", "lookup("};
  if (!text.starts_with("${{") || std::ranges::any_of(kComposed, [&](std::string_view function) {
        return text.find(function) != text.npos;
      })) {
    return false;
  }
  const Template value{Json(text)};
  bool has_output = false;
  for (const Reference& reference : value.references()) {
    const auto& path = reference.path;
    if (path[0] != "steps" || path.size() < 4 || path[2] == "matrix") return false;
    has_output = has_output || path[2] == "outputs";
  }
  return has_output;
}

/// visit_paths() for one value of shape `shape` in the key `key`, whether known or not.
void visit_value(const Shape& shape, const std::string& key, Json& value,
                 const PathVisitor& visit) {
  if (shape.type == Shape::Type::Formed && value.is_string()) {
    const PathRole role = role_of(*shape.form);
    if (role != PathRole::None) visit(key, role, value);
  } else if (shape.type == Shape::Type::List && value.is_array()) {
    for (Json& part : value) visit_value(shape.parts.front(), key, part, visit);
  } else if (shape.type == Shape::Type::Either) {
    for (const Shape& part : shape.parts) visit_value(part, key, value, visit);
  } else if (shape.type == Shape::Type::Object && value.is_object()) {
    for (const Field& field : shape.fields) {
      if (value.contains(field.name)) visit_value(field.shape, key, value[field.name], visit);
    }
  }
}

void visit_fields(const std::string& uses, Json& with, const PathVisitor& visit) {
  const StepKind* kind = find_step_kind(uses);
  if (kind == nullptr || !with.is_object()) return;
  for (const Field& field : kind->with.fields) {
    if (with.contains(field.name)) visit_value(field.shape, field.name, with[field.name], visit);
  }
}

NamedFiles named_files(const std::string& uses, Json with) {
  NamedFiles files;
  visit_paths(uses, with, [&](const std::string& key, PathRole role, Json& path) {
    if (role == PathRole::Frozen) files.frozen.emplace_back(key, path);
    if (role == PathRole::Outside) files.outside.push_back(path);
  });
  for (std::string& url : unpinned_sources(uses, with)) files.outside.push_back(std::move(url));
  return files;
}

/// Replaces a text that depends on an axis without values yet. No path begins with it.
constexpr const char* kOpenText = "\x01";

/// `value` with kOpenText for each text that mentions an axis of `matrix` without values yet.
Json without_open_texts(const Matrix& matrix, Json value) {
  if (value.is_structured()) {
    for (Json& part : value) part = without_open_texts(matrix, part);
  }
  if (!value.is_string()) return value;
  const Template text(value);
  const bool is_open = std::ranges::any_of(text.references(), [&](const Reference& reference) {
    return reference.path[0] == "matrix" &&
           std::ranges::any_of(matrix.axes, [&](const MatrixAxis& axis) {
             return axis.is_open() && axis.name == reference.path[1];
           });
  });
  return is_open ? Json(kOpenText) : value;
}

/// `with:` without the parts that are unknown before the run. Throws if a file is unknown: results
/// depend on its content at planning.
Template plannable_with(const Plan& plan, const Step& step) {
  if (!has_open_axis(step.matrix)) return step.with;
  Json with = without_open_texts(step.matrix, step.with.source());
  visit_paths(step.uses, with, [&](const std::string& key, PathRole, Json& path) {
    if (path != kOpenText) return;
    throw_at(plan.workflow, step.location_of("with." + key),
             "with." + key + " of step '" + step.name +
                 "' names a file, which must be known before the run, but a step's output decides "
                 "this axis; make the files outputs of that step, or read them in a run step");
  });
  return Template(std::move(with));
}

void read_with(Plan& plan, FileHashes& hashes, uint32_t number) {
  const Step& step = plan.workflow.steps[number];
  if (step.uses.empty()) return;
  Context known{.params = &plan.workflow.params};
  const Template with = plannable_with(plan, step);
  for (const Json& element : *plan.steps[number].elements) {
    known.matrix = &element;
    const Json values = with.evaluate_known(known);
    const NamedFiles files = named_files(step.uses, values);
    for (const auto& [key, name] : files.frozen) {
      add_file(plan, hashes, step, "with." + key, name);
    }
    for (const std::string& name : files.outside) add_outside(plan, name);
    for (const std::string& url : pinned_executables(step.uses, values)) {
      plan.steps[number].conditions["executables"][url] = true;
    }
    if (!step.with.has_references()) break;
  }
}

}  // namespace

void visit_paths(const std::string& uses, Json& with, const PathVisitor& visit) {
  visit_fields(uses, with, [&](const std::string& key, PathRole role, Json& path) {
    if (is_known(path)) visit(key, role, path);  // otherwise a parent's output
  });
}

bool names_late_places(const std::string& uses, Json with) {
  bool late = false;
  const auto look = [&](const Json& text) {
    late = late || (!is_known(text) && !lies_in_output(text.get<std::string>()));
  };
  visit_fields(uses, with, [&](const std::string&, PathRole, Json& path) { look(path); });
  if (!copies_sources(uses)) return late;
  for (const Json& source : with.value(find_step_kind(uses)->sources, Json::array())) {
    if (source.is_object() && source.contains("url")) look(source.at("url"));
  }
  return late;
}

std::vector<std::string> places_named(const std::string& uses, const Json& with) {
  NamedFiles files = named_files(uses, with);
  for (auto& [key, name] : files.frozen) files.outside.push_back(std::move(name));
  return std::move(files.outside);
}

void check_files_of_elements(const Plan& plan) {
  Context known{.params = &plan.workflow.params};
  for (const PlannedJob& job : plan.jobs) {
    const Step& step = plan.workflow.steps[job.step];
    const bool is_new = !plan.steps[job.step].open && !step.uses.empty() && takes_list(step.matrix);
    if (!is_new) continue;
    known.matrix = &(*plan.steps[job.step].elements)[job.element];
    const NamedFiles files = named_files(step.uses, step.with.evaluate_known(known));
    std::vector<std::string> unknown;
    for (const auto& [key, name] : files.frozen) {
      if (!plan.files.contains(name)) unknown.push_back(name);
    }
    for (const std::string& name : files.outside) {
      if (!plan.outside.contains(name)) unknown.push_back(name);
    }
    if (unknown.empty()) continue;
    throw Error(Errc::InvalidInput,
                job.name + " reads " + unknown.front() +
                    ", which was not known before the run; make it a step's output");
  }
}

std::set<std::string> secrets_of(const Plan& plan, const Step& step) {
  std::set<std::string> names = step.secrets;
  for (const std::string& name : plan.secret_variables) {
    const bool arrives = is_inherited(name, inherited_by(plan.profile, step));
    if (arrives && !is_given(plan.profile, step, name)) names.insert(name);
  }
  return names;
}

void read_files(Plan& plan, FileHashes& hashes) {
  if (plan.directory.empty()) {
    plan.secret_variables = secrets_among(
        added_by(planned_variables(plan), inherited_by(plan.profile, plan.workflow.steps)));
  }
  for (uint32_t step = 0; step < plan.steps.size(); ++step) {
    if (!plan.steps[step].planned) continue;
    try {
      read_inputs(plan, hashes, step);
      read_with(plan, hashes, step);
      read_rules_of_sums(plan, hashes, step);
    } catch (const fs::filesystem_error& error) {
      throw_at(plan.workflow, plan.workflow.steps[step].location,
               "step '" + plan.workflow.steps[step].name + "' reads " + error.path1().string() +
                   ": " + error.code().message());
    }
  }
}

ContentHashes files_of(const Plan& plan, const PlannedJob& job, const Json& with) {
  const Step& step = plan.workflow.steps[job.step];
  ContentHashes files;
  const auto add = [&files](const ContentHashes& hashes, const std::string& name) {
    const auto found = hashes.find(name);
    if (found != hashes.end() && !found->second.empty()) files.insert(*found);
  };
  for (const std::string& name : plan.steps[job.step].inputs) add(plan.files, name);
  const NamedFiles named = named_files(step.uses, with);
  for (const auto& [key, name] : named.frozen) add(plan.files, name);
  for (const std::string& name : named.outside) add(plan.outside, name);
  for (const DataInput& data : step.data) add(plan.data, data.path);
  return files;
}

std::map<std::string, std::string> planned_packages(const Plan& plan, uint32_t number) {
  const Step& step = plan.workflow.steps[number];
  const Json tools = plan.steps[number].conditions.value("tools", Json::object());
  if (step.tools.empty() || !tools.contains("lock")) return {};
  const auto known = tools.at("lock").get<std::string>();
  std::map<std::string, std::string> packages = {
      {lock_of_tools(step.tools, plan.base).string(), known == kUnknown ? "" : known}};
  if (tools.contains("installed")) {
    packages[venv_beside_lock(step.tools, plan.base).string()] =
        tools.at("installed").get<std::string>();
  }
  return packages;
}

Json conditions_of(const Plan& plan, const PlannedJob& job) {
  Json conditions = plan.steps[job.step].conditions;
  const auto programs = conditions.find("programs");
  if (programs == conditions.end()) return conditions;  // an older dlflow had one program for all
  const std::string search = search_of(plan, plan.workflow.steps[job.step], element_of(plan, job));
  conditions["program"] =
      is_searched_elsewhere(plan, job) ? Json(kUnknown) : programs->value(search, Json());
  conditions.erase("programs");
  return conditions;
}

bool has_unknown_conditions(const Plan& plan, const PlannedJob& job) {
  if (plan.steps[job.step].conditions.empty()) return false;
  const auto packages = planned_packages(plan, job.step);
  return conditions_of(plan, job).value("program", Json()) == kUnknown ||
         std::ranges::any_of(packages, [](const auto& place) { return place.second.empty(); });
}

SourceProofs source_proofs(const Plan& plan, const PlannedJob& job, const Json& with) {
  const Step& step = plan.workflow.steps[job.step];
  SourceProofs proofs;
  const auto add_frozen = [&](const std::string& name) {
    const auto found = plan.files.find(name);
    if (found == plan.files.end()) return;
    proofs.frozen.emplace(frozen_file(plan, name).string(), found->second);
  };
  for (const std::string& name : plan.steps[job.step].inputs) add_frozen(name);
  const NamedFiles named = named_files(step.uses, with);
  for (const auto& [key, name] : named.frozen) add_frozen(name);
  std::vector<std::string> outside = named.outside;
  for (const DataInput& data : step.data) {
    if (data.content_counts) outside.push_back(data.path);
  }
  outside.push_back(rules_of_sums(plan, step));
  for (const std::string& name : outside) {
    const auto found = plan.outside.find(name);
    if (found != plan.outside.end()) {
      proofs.outside.emplace(absolute_place(plan, name), found->second);
    }
  }
  proofs.packages = planned_packages(plan, job.step);
  const Json& conditions = plan.steps[job.step].conditions;
  proofs.variables = conditions.value("environment", proofs.variables);
  std::erase_if(proofs.variables, [&](const auto& variable) {
    return plan.profile.environment.contains(variable.first);  // frozen with the run
  });
  proofs.inherited = conditions.value("inherited", proofs.inherited);
  const Json own = conditions_of(plan, job);
  if (own.contains("program")) {
    const auto identity = own.at("program").get<std::string>();
    proofs.programs.emplace(program_of(plan, step, element_of(plan, job)),
                            identity == kUnknown ? "" : identity);
  }
  return proofs;
}

}  // namespace dlflow
