#include "engine/model/parse_step.h"

#include <algorithm>
#include <utility>

#include "base/exit_status.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/expression_syntax.h"
#include "engine/model/forms.h"
#include "engine/model/hints.h"
#include "engine/model/parse_matrix.h"
#include "engine/model/resources.h"
#include "engine/model/step_kinds.h"
#include "engine/model/tools.h"
#include "engine/model/workflow_shape.h"

namespace dlflow {
namespace {

constexpr std::string_view kAlways = "always";

/// The environment variable that holds the value of `reference`; empty if there is none.
std::string variable_of(const Reference& reference) {
  const std::vector<std::string>& path = reference.path;
  if (path[0] == "run") return path[1] == "id" ? "DLFLOW_RUN" : "";
  if (path[0] == "matrix" && path.size() == 3) {
    return environment_name("DLFLOW_MATRIX_", path[1] + "_" + path[2]);
  }
  if (path.size() != 2) return "";
  return environment_name(path[0] == "params" ? "DLFLOW_PARAM_" : "DLFLOW_MATRIX_", path[1]);
}

class StepReader {
 public:
  StepReader(const YamlEntry& entry, const StepSurroundings& surroundings, Mistakes& mistakes)
      : node_(*entry.value),
        subject_{"", "step '" + entry.key + "'"},
        surroundings_(surroundings),
        mistakes_(mistakes),
        names_(surroundings.names),
        checker_(mistakes, names_) {
    parsed_.step.name = entry.key;
    parsed_.step.location = entry.location;
    for (Template* absent :
         {&parsed_.step.with, &parsed_.step.environment, &parsed_.step.resources}) {
      *absent = Template(Json::object());
    }
  }

  ParsedStep read() {
    if (node_.kind != YamlNode::Kind::Map) {
      mistakes_.add(node_.location, subject_.name() + " must be a mapping with uses: or run:");
      return std::move(parsed_);
    }
    checker_.check_keys(node_, step_shape(), subject_);
    note_locations();
    read_matrix_first();
    read_repeat();
    read_command();
    read_plain_keys();
    read_expressions("env", parsed_.step.environment);
    read_expressions("resources", parsed_.step.resources);
    read_expressions("if", parsed_.step.condition);
    check_resources();
    parsed_.step.always = parsed_.step.condition.calls(kAlways);
    check_demands();
    check_lead();
    check_pattern();
    return std::move(parsed_);
  }

 private:
  void note_locations() {
    auto& locations = parsed_.step.locations;
    for (const YamlEntry& entry : node_.entries) {
      locations.emplace(entry.key, entry.value->location);
      if (entry.value->kind != YamlNode::Kind::Map) continue;
      for (const YamlEntry& inner : entry.value->entries) {
        locations.emplace(entry.key + "." + inner.key, inner.value->location);
      }
    }
  }

  /// Returns the checked value of a key of the step; nothing if it is absent or wrong.
  std::optional<Json> value_of(const std::string& key) {
    const YamlEntry* entry = find_entry(node_, key);
    if (entry == nullptr) return std::nullopt;
    const Field& field = *find_field(step_shape(), key);
    return checker_.check(*entry->value, field.shape, *field.scope, subject_.at(key));
  }

  /// Like value_of(), for a key of run steps. `further` ends the message if another step has it.
  std::optional<Json> value_of_run(const std::string& key, const std::string& further = "") {
    auto value = value_of(key);
    if (!value || parsed_.step.uses.empty()) return value;
    refuse_key(key, "belongs to run" + further);
    return std::nullopt;
  }

  void read_matrix_first() {
    const YamlEntry* entry = find_entry(node_, "matrix");
    if (entry == nullptr) return;
    auto matrix = read_matrix(*entry->value, mistakes_, names_, subject_.at("matrix"),
                              surroundings_.allowance, parsed_.references);
    names_.matrix_is_wrong = parsed_.matrix_is_wrong = !matrix;
    if (!matrix) return;
    parsed_.step.matrix = std::move(*matrix);
    names_.matrix = &parsed_.step.matrix;
  }

  /// Repetitions become the last axis.
  void read_repeat() {
    const auto times = value_of("repeat");
    if (!times || names_.matrix_is_wrong) return;
    Matrix& matrix = parsed_.step.matrix;
    const Subject subject = subject_.at("repeat");
    const Location location = parsed_.step.locations.at("repeat");
    if (!matrix.include.empty()) {
      return mistakes_.add(
          location,
          subject.name() +
              " cannot be combined with matrix.include; add an axis called repeat instead");
    }
    if (std::ranges::find(matrix.axes, kRepeatAxis, &MatrixAxis::name) != matrix.axes.end()) {
      return mistakes_.add(location, subject.name() + " is an axis of the matrix already");
    }
    MatrixAxis axis{kRepeatAxis, {}};
    for (int number = 1; number <= times->get<int>(); ++number) axis.values.emplace_back(number);
    matrix.axes.push_back(std::move(axis));
    check_allowance(matrix, mistakes_, subject, location, surroundings_.allowance);
    names_.matrix = &matrix;
  }

  /// Without different seeds, all repetitions would give the same result.
  void give_seed(const StepKind& kind, const YamlNode& with) {
    if (find_entry(node_, "repeat") == nullptr || find_entry(with, "seed") != nullptr) return;
    if (find_field(kind.with, "seed") == nullptr) return;
    Json source = parsed_.step.with.source();
    source["seed"] = "${{ matrix." + std::string(kRepeatAxis) + " }}";
    parsed_.step.with = Template(source);
  }

  void read_command() {
    const YamlEntry* uses = find_entry(node_, "uses");
    const YamlEntry* run = find_entry(node_, "run");
    const bool is_misspelt = std::ranges::any_of(node_.entries, [](const YamlEntry& entry) {
      return hint_on_key(entry.key, step_shape()) == "; did you mean 'run'?";
    });
    if ((uses == nullptr) == (run == nullptr) && (uses != nullptr || !is_misspelt)) {
      mistakes_.add(uses == nullptr ? parsed_.step.location : run->location,
                    subject_.name() + (uses == nullptr ? " has neither uses nor run; give one"
                                                       : " has both uses and run; remove one"));
    }
    if (uses != nullptr) read_kind();
    if (run != nullptr) read_run(*run);
    if (uses == nullptr && run != nullptr) read_values();
  }

  void read_kind() {
    const auto uses = value_of("uses");
    if (!uses) return;
    const StepKind& kind = *find_step_kind(uses->get_ref<const std::string&>());
    parsed_.step.uses = kind.name;
    parsed_.outputs.emplace();
    for (const Field& output : kind.outputs) parsed_.outputs->push_back(output.name);
    refuse_key("outputs", "is for run steps; the outputs of '" + kind.name + "' are fixed");
    if (!kind.saves_itself) {
      refuse_key("checkpoint", "has no meaning here: '" + kind.name + "' saves no state");
    }
    read_with(kind);
  }

  /// `with` of a run step: free values, which the program reads from a file.
  void read_values() {
    const YamlEntry* with = find_entry(node_, "with");
    if (with == nullptr) return;
    read_expressions("with", map_of(kKeyForm, anything()), *with->value, parsed_.step.with);
  }

  void refuse_key(const std::string& key, const std::string& reason) {
    const YamlEntry* entry = find_entry(node_, key);
    if (entry == nullptr) return;
    mistakes_.add(entry->location, subject_.at(key).name() + " " + reason);
  }

  void read_with(const StepKind& kind) {
    const YamlEntry* with = find_entry(node_, "with");
    const YamlPointer none = to_yaml(Json::object(), parsed_.step.location);
    const YamlNode& node = with != nullptr ? *with->value : *none;
    if (with != nullptr && node.kind == YamlNode::Kind::Scalar && node.scalar.is_string()) {
      mistakes_.add(node.location, subject_.at("with").name() +
                                       " cannot be one expression or text; name its keys, whose "
                                       "values may be expressions");
      return;
    }
    read_expressions("with", kind.with, node, parsed_.step.with);
    give_seed(kind, node);
    for (const auto& [key, other] : kind.alternatives) {
      const YamlEntry* second = find_entry(node, other);
      if (find_entry(node, key) == nullptr || second == nullptr) continue;
      mistakes_.add(second->location, subject_.at("with").at(other).name() +
                                          " cannot be combined with " + key + "; remove one");
    }
  }

  /// Checks values that are the same for all elements of a matrix; the step checks the others.
  void check_demands() {
    const StepKind* kind = find_step_kind(parsed_.step.uses);
    if (kind == nullptr || find_entry(node_, "with") == nullptr) return;
    const Context known{.params = names_.params};
    const Json with = parsed_.step.with.evaluate_known(known);
    const Json resources = parsed_.step.resources.evaluate_known(known);
    const bool resources_are_wrong = resources.empty() && find_entry(node_, "resources") != nullptr;
    for (const Demand& demand : kind->demands) {
      if (resources_are_wrong || with.value(demand.key, Json()) != demand.value) continue;
      if (resources.value(demand.resource, Json(0)) != 0) continue;
      mistakes_.add(parsed_.step.locations.at("with." + demand.key),
                    subject_.at("with").at(demand.key).name() + " is " + demand.value +
                        ", which needs resources: {" + demand.resource + ": 1}");
    }
  }

  void read_run(const YamlEntry& run) {
    const bool is_script = run.value->scalar.is_string();
    if (is_script && !check_script(*run.value)) return;
    read_expressions("run", parsed_.step.run);
    const auto outputs = value_of("outputs");
    if (!outputs && find_entry(node_, "outputs") != nullptr) return;
    parsed_.outputs.emplace();
    if (!outputs) return;
    for (const auto& [name, path] : outputs->items()) {
      parsed_.outputs->push_back(name);
      parsed_.step.outputs.emplace(name, path);
    }
  }

  /// A shell script holds no expressions, so that no value can become a command.
  bool check_script(const YamlNode& node) {
    const auto& script = node.scalar.get_ref<const std::string&>();
    if (trim(script).empty()) {
      mistakes_.add(node.location, subject_.at("run").name() + " is empty; write a command");
      return false;
    }
    if (find_expression(script, 0) == std::string::npos) return true;
    const Template text = located_template(node.scalar, node, mistakes_);
    if (!text.has_references()) {
      mistakes_.add(node.location, refusal_of("", "${{ … }}"));
      return false;
    }
    checker_.check(node, anything(), Scope::Steps, subject_.at("run"));
    for (const Reference& reference : text.references()) {
      if (reference.path[0] == "steps") parsed_.references.push_back(reference);
      const Reference meant = meant_by(reference);
      mistakes_.add(reference.location,
                    refusal_of(variable_of(meant), "${{ " + to_string(meant) + " }}"));
    }
    return false;
  }

  /// The reference with the nearest known name, so that advice does not repeat a typo.
  Reference meant_by(Reference reference) const {
    constexpr size_t kMost = 1000;  // names to compare
    std::vector<std::string> known = surroundings_.steps;
    if (reference.path[0] != "steps") known.clear();
    if (reference.path[0] == "matrix" && names_.matrix) known = axis_names(*names_.matrix);
    const Json params = reference.path[0] == "params" ? *names_.params : Json::object();
    for (const auto& [name, value] : params.items()) known.push_back(name);
    std::string& name = reference.path[1];
    if (known.size() > kMost || std::ranges::find(known, name) != known.end()) return reference;
    if (const std::string near = nearest(name, known); !near.empty()) name = near;
    return reference;
  }

  std::string refusal_of(const std::string& variable, const std::string& expression) const {
    return subject_.at("run").name() + " is a shell script, where expressions are not replaced; " +
           (variable.empty() ? "write env: {NAME: \"" + expression + "\"} and \"$NAME\" here"
                             : "write \"$" + variable + "\"") +
           ", or give run as a list";
  }

  /// Checks the value of `key` and compiles it. Collects its references even if it is wrong.
  void read_expressions(const std::string& key, const Shape& shape, const YamlNode& node,
                        Template& destination) {
    const Field& field = *find_field(step_shape(), key);
    const auto value = checker_.check(node, shape, *field.scope, subject_.at(key));
    const Template found = located_template(value ? *value : to_json(node), node, mistakes_);
    for (const Reference& reference : found.references()) {
      if (reference.path[0] == "steps") parsed_.references.push_back(reference);
    }
    if (key != "if" && found.calls(kAlways)) {
      mistakes_.add(node.location, subject_.at(key).name() + ": always() can be used only in `if`");
    }
    if (value) destination = found;
  }

  void read_expressions(const std::string& key, Template& destination) {
    const YamlEntry* entry = find_entry(node_, key);
    if (entry == nullptr) return;
    read_expressions(key, find_field(step_shape(), key)->shape, *entry->value, destination);
  }

  void read_plain_keys() {
    read_needs();
    read_image();
    read_secrets();
    Step& step = parsed_.step;
    read_checkpoint();
    read_retry();
    if (const auto require = value_of("require")) {
      for (const auto& [metric, text] : require->items()) {
        step.require.push_back(*parse_requirement(text.get_ref<const std::string&>()));
        step.require.back().metric = metric;
      }
    }
    if (const auto inputs = value_of("inputs")) {
      for (const Json& input : *inputs) {
        if (input.is_string()) {
          step.inputs.push_back(input);
        } else {
          step.data.push_back({input.at("path"), input.at("hash") == "content"});
        }
      }
    }
    if (const auto allowed = value_of("allow_failure")) step.allow_failure = *allowed;
    read_reuse();
    read_inherit();
    read_launch();
    read_tools();
    if (const auto on = value_of("on")) step.on = on->get<std::string>();
  }

  void read_retry() {
    const auto given = value_of("retry");
    if (!given) return;
    Retry& retry = parsed_.step.retry;
    retry = {.attempts = given->at("attempts"), .on = {}};
    retry.memory_factor = given->at("memory_factor");
    retry.walltime_factor = given->at("walltime_factor");
    for (const Json& cause : given->at("on")) {
      if (cause.is_string()) {
        const auto found = std::ranges::find(kRetryCauses, cause.get_ref<const std::string&>());
        retry.on.push_back(RetryCause(found - kRetryCauses.begin()));
      } else {
        retry.exit_codes.insert(cause.get<int>());
      }
    }
    if (!retry.exit_codes.contains(kExitAgain)) return;
    mistakes_.add(parsed_.step.locations.at("retry"),
                  subject_.at("retry").at("on").name() +
                      ": exit status 75 means that the program has saved and runs again, which "
                      "needs no retry; leave it out");
  }

  void read_checkpoint() {
    const auto policy = value_of("checkpoint");
    if (!policy) return;
    CheckpointPolicy checkpoint =
        *parse_interval(policy->at("every").get_ref<const std::string&>());
    checkpoint.keep = policy->at("keep");
    if (policy->at("signal") == "SIGTERM") checkpoint.signal = CheckpointPolicy::Signal::Term;
    if (policy->contains("lead")) {
      checkpoint.lead = parse_duration(policy->at("lead").get_ref<const std::string&>());
    }
    checkpoint.newer = policy->value("newer", "");
    parsed_.step.checkpoint = std::move(checkpoint);
    refuse_signals_of_kind();
  }

  /// Only run steps choose how they are asked to save.
  void refuse_signals_of_kind() {
    if (parsed_.step.uses.empty()) return;
    for (const char* key : {"signal", "lead", "newer"}) {
      const auto found = parsed_.step.locations.find(std::string("checkpoint.") + key);
      if (found == parsed_.step.locations.end()) continue;
      mistakes_.add(found->second, subject_.at("checkpoint").at(key).name() +
                                       " is for run steps; the way to ask '" + parsed_.step.uses +
                                       "' to save is fixed");
    }
  }

  void check_resources() {
    const std::string problem = contradiction_in(parsed_.step.resources.source());
    if (problem.empty()) return;
    mistakes_.add(parsed_.step.locations.at("resources"),
                  subject_.at("resources").name() + ": " + problem);
  }

  /// Checks a walltime that all elements of a matrix share; lead_of() shortens other leads.
  void check_lead() {
    const auto& policy = parsed_.step.checkpoint;
    if (!policy || policy->lead.count() == 0) return;
    const Json resources = parsed_.step.resources.evaluate_known({.params = names_.params});
    const Json walltime = resources.value("walltime", Json());
    if (!walltime.is_string()) return;
    const auto& text = walltime.get_ref<const std::string&>();
    if (!kDurationForm.accepts(text) || policy->lead * 2 <= parse_duration(text)) return;
    mistakes_.add(parsed_.step.locations.at("checkpoint.lead"),
                  subject_.at("checkpoint").at("lead").name() + " is " +
                      format_duration(policy->lead) + ", more than half of the walltime of " +
                      format_duration(parse_duration(text)) +
                      "; ask for more walltime or for less time to save");
  }

  /// Inputs must not use the folder's name: the working directory has a link with that name.
  void check_pattern() {
    const auto& policy = parsed_.step.checkpoint;
    const std::string folder = policy ? folder_of_pattern(policy->newer) : "";
    if (folder.empty()) return;
    for (const std::string& input : parsed_.step.inputs) {
      const auto parts = split(input, '/');
      const auto first = std::ranges::find_if(
          parts, [](const std::string& part) { return !part.empty() && part != "."; });
      if (first == parts.end() || *first != folder) continue;
      mistakes_.add(parsed_.step.locations.at("checkpoint.newer"),
                    subject_.at("checkpoint").at("newer").name() + ": the folder '" + folder +
                        "' has the input '" + input + "'; save into another folder");
      return;
    }
  }

  void read_reuse() {
    Step& step = parsed_.step;
    const auto reuse =
        value_of_run("reuse", "; for '" + step.uses + "' these conditions are fixed");
    if (!reuse) return;
    step.reuse.environment = reuse->value("environment", std::vector<std::string>());
    step.reuse.program = reuse->at("program");
    if (step.reuse.program && step.run.source().is_string()) {
      mistakes_.add(step.locations.at("reuse"),
                    subject_.at("reuse").name() +
                        ": 'program' needs a `run:` list that begins with a program");
    }
  }

  void read_inherit() {
    const auto inherit = value_of_run("inherit");
    if (inherit) parsed_.step.inherit = inherit->get<std::vector<std::string>>();
  }

  void read_tools() {
    const auto tools =
        value_of_run("environment", "; '" + parsed_.step.uses + "' includes all that it needs");
    if (!tools) return;
    if (const std::string problem = problem_of_tools(*tools); !problem.empty()) {
      return mistakes_.add(parsed_.step.locations.at("environment"),
                           subject_.at("environment").name() + problem);
    }
    if (find_entry(node_, "image") != nullptr) {
      return refuse_key("environment", "has no meaning with image, which has its own packages");
    }
    parsed_.step.tools = *tools;
  }

  void read_launch() {
    const auto launch =
        value_of_run("launch", "; how '" + parsed_.step.uses + "' is started is fixed");
    if (launch) parsed_.step.launch = *launch == "node" ? Launch::Node : Launch::Ranks;
  }

  void read_needs() {
    const auto needs = value_of("needs");
    if (!needs) return;
    const YamlNode& node = *find_entry(node_, "needs")->value;
    if (node.kind == YamlNode::Kind::Scalar) parsed_.needs.push_back({*needs, node.location});
    for (const YamlEntry& entry : node.entries) {
      parsed_.needs.push_back({entry.value->scalar, entry.location});
    }
  }

  void read_image() {
    const auto image = value_of("image");
    if (!image) return;
    const auto& name = image->get_ref<const std::string&>();
    const auto& known = surroundings_.images;
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      parsed_.step.image = name;
      return;
    }
    if (name == "none") return;  // a parameter may choose no image
    mistakes_.add(parsed_.step.locations.at("image"),
                  subject_.name() + ": unknown image '" + name + "'" +
                      (known.empty() ? "; declare it: images: {" + name + ": {from: …}}"
                                     : mistakes_.advice_or_list(name, known)));
  }

  void read_secrets() {
    if (!value_of("secrets")) return;
    const YamlEntry* env = find_entry(node_, "env");
    for (const YamlEntry& entry : find_entry(node_, "secrets")->value->entries) {
      const auto& name = entry.value->scalar.get_ref<const std::string&>();
      const std::string what = subject_.at("secrets").name() + ": " + name;
      if (!parsed_.step.secrets.insert(name).second) {
        mistakes_.add(entry.location, what + " occurs twice; remove one");
      }
      if (env != nullptr && find_entry(*env->value, name) != nullptr) {
        mistakes_.add(entry.location, what + " is in env, too; remove it there");
      }
    }
  }

  const YamlNode& node_;
  Subject subject_;
  const StepSurroundings& surroundings_;
  Mistakes& mistakes_;
  Names names_;
  Checker checker_;
  ParsedStep parsed_;
};

}  // namespace

ParsedStep read_step(const YamlEntry& entry, const StepSurroundings& surroundings,
                     Mistakes& mistakes) {
  return StepReader(entry, surroundings, mistakes).read();
}

}  // namespace dlflow
