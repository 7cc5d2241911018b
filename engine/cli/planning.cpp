#include "engine/cli/planning.h"

#include <algorithm>
#include <climits>
#include <set>

#include "base/cores.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/leaves.h"
#include "base/not_finite.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/resources.h"
#include "engine/model/step_kinds.h"
#include "engine/model/train_with.h"
#include "engine/plan/graph.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace planner;

/// `with:` or `resources:` of the first element, as far as they are known.
Json of_first_element(const Workflow& workflow, const Step& step, const Template& part) {
  const std::vector<Json> elements = matrix_elements(step.matrix);
  Context known{.params = &workflow.params};
  if (!has_open_axis(step.matrix) && !elements.empty()) known.matrix = &elements.front();
  return part.evaluate_known(known);
}

std::string text_at(const Json& with, const char* pointer, const std::string& otherwise) {
  const Json::json_pointer place(pointer);
  const bool is_text = with.contains(place) && with.at(place).is_string();
  return is_text ? with.at(place).get<std::string>() : otherwise;
}

Json part_of(const Json& with, const char* key) {
  return with.is_object() ? with.value(key, Json()) : Json();
}

/// The SHA-256 hashes by which a measurement may name the step's model: of its file, or of each
/// input of a command. Empty if the files exist only during a run.
std::set<std::string> models_of(const Workflow& workflow, const Step& step, const Json& with) {
  std::vector<std::string> files = step.inputs;
  if (const StepKind* kind = find_step_kind(step.uses)) {
    files = {text_at(with, ("/" + kind->model).c_str(), "")};
  }
  std::set<std::string> hashes;
  for (const std::string& name : files) {
    const fs::path file = fs::absolute(workflow.file).parent_path() / name;
    std::error_code none;
    if (fs::is_regular_file(file, none)) hashes.insert(sha256_hex(read_file(file)));
  }
  return hashes;
}

Training training_of(const Step& step, const Json& with, const Measurement& measurement) {
  Training training;
  training.samples = measurement.samples;
  if (step.uses.empty()) {  // a script: as its measurement says
    training.exact = measurement.points.front().mode == "exact";
    training.per_rank = true;
    return training;
  }
  training.exact = trains_exactly(with);
  training.per_rank = with.contains("batch_per_rank");
  const double batch = training.per_rank ? number_at(with, "batch_per_rank").value_or(0)
                                         : number_at(with, "batch").value_or(LeafSettings{}.batch);
  training.batch = batch * number_at(with, "accumulate").value_or(1);
  training.epochs = number_at(with, "epochs").value_or(0);
  const std::string wire = text_at(with, "/gradients/wire", "fp32");
  training.compression = text_at(with, "/gradients/compression", wire == "fp32" ? "none" : wire);
  const Json gradients = part_of(with, "gradients");
  training.priority = part_of(gradients, "priority") != false;
  training.density = number_at(gradients, "density").value_or(training.density);
  return training;
}

/// The ranks that a node has room for; 0: not known.
int ranks_of_node(const Json& resources, const Profile& profile) {
  const bool is_local = !has_batch_system(profile);
  const int cpus = int(number_at(resources, "cpus_per_rank").value_or(1));
  const int gpus = int(number_at(resources, "gpus_per_rank").value_or(0));
  int ranks = int(number_at(resources, "ranks_per_node").value_or(profile.ranks_per_node));
  if (is_local) ranks = std::max(1, (profile.cores > 0 ? profile.cores : usable_cores()) / cpus);
  if (ranks == 0) ranks = profile.node.cores / cpus;
  const int node_gpus = is_local ? profile.gpus : profile.node.gpus;
  if (gpus > 0 && node_gpus > 0) ranks = std::min(ranks == 0 ? node_gpus : ranks, node_gpus / gpus);
  return ranks;
}

/// Powers of two and what was measured, laid out as the profile does and as was measured, up to
/// four times the ranks that were measured or to the limit.
std::vector<Layout> candidates_of(const Json& resources, const Profile& profile,
                                  const StepModel& model) {
  const bool is_local = !has_batch_system(profile);
  const int per_node = ranks_of_node(resources, profile);
  const int limit = is_local ? per_node : profile.limits.nodes * per_node;
  const int working = model.most_ranks() > 0 ? model.most_ranks() : INT_MAX;
  constexpr int kBeyond = 4, kMost = 1024;
  int most = limit;
  std::set<int> measured;  // ranks on a node, of groups of several nodes
  for (const MeasuredPoint& point : model.measurement().points) {
    most = std::max(most, kBeyond * point.ranks);
    if (point.nodes > 1) measured.insert(point.ranks / point.nodes);
  }
  most = std::min(most, kMost);
  std::set<int> ranks = {most};
  for (int p = 1; p <= most; p *= 2) ranks.insert(p);
  std::vector<Layout> all;
  for (const int p : ranks) {
    const int nodes = is_local ? 1 : per_node == 0 ? p : (p + per_node - 1) / per_node;
    all.push_back({p, nodes, (limit == 0 || p <= limit) && p <= working});
    for (const int together : measured) {
      if (p % together == 0 && p / together != nodes) all.push_back({p, p / together, false});
    }
  }
  return all;
}

/// A class that the step names.
Profile class_of_step(const Step& step, const Profile& profile) {
  const auto found = std::ranges::find(profile.classes, step.on, &NodeClass::name);
  return found == profile.classes.end() ? profile : with_class(profile, *found);
}

[[noreturn]] void throw_unmeasured(const Workflow& workflow, const Step& step,
                                   const fs::path& cache, bool changed) {
  const std::string advice =
      step.uses.empty()
          ? "run it with DLFLOW_PROFILE_STEPS: \"20\" in its `env:`, with the backend dlflow"
          : "run it once, then type `DLFLOW_STEP=" + step.name +
                " DLFLOW_CACHE=" + shell_quote(cache.string()) +
                " dlflow-train --profile-steps 20 RUN/steps/" + step.name +
                "/attempt-1/with.json`, and the same under `mpirun -np 2`";
  throw_at(
      workflow, step.location,
      "step '" + step.name + "' " +
          (changed ? "was measured with another model or precision" : "has not been measured") +
          ": " + advice);
}

}  // namespace

bool is_training(const Step& step) {
  const StepKind* kind = find_step_kind(step.uses);
  return kind != nullptr && kind->divides_into_leaves;
}

MeasuredStep measured_step(const Workflow& workflow, const Step& step, const Profile& profile,
                           const fs::path& file) {
  const fs::path cache = cache_directory(profile);
  const std::vector<fs::path> files =
      file.empty() ? measurement_files(cache, step.name) : std::vector{file};
  if (files.empty()) throw_unmeasured(workflow, step, cache, false);
  const Json with = of_first_element(workflow, step, step.with);
  const Json resources = of_first_element(workflow, step, step.resources);
  const Profile place = class_of_step(step, profile);
  const std::set<std::string> models = models_of(workflow, step, with);
  const std::string compute = text_at(with, "/precision/compute", "fp32");
  for (const fs::path& candidate : files) {
    MeasuredStep found;
    found.measurement = measurement_from_json(read_json_file(candidate), candidate.string());
    found.is_of_model = (models.empty() || models.contains(found.measurement.model)) &&
                        (step.uses.empty() || found.measurement.compute == compute);
    if (file.empty() && !found.is_of_model) continue;
    found.file = candidate;
    found.training = training_of(step, with, found.measurement);
    const auto reach = number_at(part_of(with, "stop_early"), "reach");
    if (reach) found.aim = text_at(with, "/stop_early/metric", "") + print_number(" %g", *reach);
    found.bounds.cpus_per_rank = int(number_at(resources, "cpus_per_rank").value_or(1));
    found.bounds.node_memory_bytes =
        double(has_batch_system(profile) ? place.node.memory_bytes : profile.memory_bytes);
    const StepModel model(found.measurement, found.training);
    found.candidates = candidates_of(resources, place, model);
    return found;
  }
  throw_unmeasured(workflow, step, cache, true);
}

Advice advice_for(const MeasuredStep& step, double bandwidth) {
  const StepModel model(step.measurement, step.training, bandwidth);
  return advise(model, step.candidates, step.bounds);
}

std::map<std::string, int> automatic_ranks(const Workflow& workflow, const Profile& profile,
                                           const std::string& until) {
  std::map<std::string, int> ranks;
  const auto wanted =
      until.empty() ? std::vector<bool>(workflow.steps.size(), true) : needed_for(workflow, until);
  for (size_t i = 0; i < workflow.steps.size(); ++i) {
    const Step& step = workflow.steps[i];
    const Json asked = of_first_element(workflow, step, step.resources);
    if (!wanted[i] || part_of(asked, "ranks") != kAutomaticRanks) continue;
    MeasuredStep measured = measured_step(workflow, step, profile);
    measured.bounds.only_own_batch = true;
    const Advice advice = advice_for(measured);
    if (!advice.recommended) {
      throw_at(workflow, step.location_of("resources.ranks"),
               "step '" + step.name + "': no number of ranks fits; `dlflow plan " +
                   shell_quote(workflow.file) + " " + step.name + "` shows why");
    }
    ranks[step.name] = advice.recommended->ranks;
  }
  return ranks;
}

std::string automatic_lines(const std::map<std::string, int>& ranks) {
  std::string text;
  for (const auto& [step, number] : ranks) {
    text += "note: step '" + step + "' takes " + plural(uint64_t(number), "rank") +
            ", as `dlflow plan` recommends\n";
  }
  return text;
}

Json predictions_of(const Workflow& workflow, const Profile& profile,
                    const std::map<std::string, int>& automatic) {
  Json predictions = Json::object();
  for (const Step& step : workflow.steps) {
    if (!is_training(step) || !step.matrix.empty()) continue;
    try {
      MeasuredStep measured = measured_step(workflow, step, profile);
      Json asked = of_first_element(workflow, step, step.resources);
      if (const auto found = automatic.find(step.name); found != automatic.end()) {
        asked["ranks"] = found->second;
      }
      const Resources resources = resources_from_json(asked);
      const int nodes =
          has_batch_system(profile) ? num_nodes(resources, class_of_step(step, profile)) : 1;
      measured.candidates = {{resources.ranks, std::max(1, nodes)}};
      const Advice advice = advice_for(measured);
      if (!advice.predictions.empty()) {
        predictions[step.name] = json_of(advice.predictions.front());
      }
    } catch (const Error&) {  // not measured, or in a file that `dlflow plan` refuses
    }
  }
  return predictions;
}

}  // namespace dlflow
