#include "engine/cli/planning.h"

#include <algorithm>
#include <climits>
#include <set>

#include "base/cores.h"
#include "base/error.h"
#include "base/file.h"
#include "base/leaves.h"
#include "base/not_finite.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/node_layout.h"
#include "engine/model/step_kinds.h"
#include "engine/model/train_with.h"
#include "engine/plan/graph.h"
#include "engine/plan/layout.h"
#include "runtime/data/dataset.h"
#include "runtime/nn/model.h"
#include "runtime/settings/train_settings.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace planner;

/// `with:` and `resources:` of the first element, as far as they are known.
struct FirstElement {
  Json with, resources;
};

FirstElement first_element(const Workflow& workflow, const Step& step) {
  const std::vector<Json> elements = matrix_elements(step.matrix);
  Context known;
  known.params = &workflow.params;
  if (!has_open_axis(step.matrix) && !elements.empty()) known.matrix = &elements.front();
  return {step.with.evaluate_known(known), step.resources.evaluate_known(known)};
}

std::string word_of(const Json& object, const char* part, const char* key, const char* otherwise) {
  const Json inner = object.is_object() ? object.value(part, Json()) : Json();
  const Json value = inner.is_object() ? inner.value(key, Json()) : Json();
  return value.is_string() ? value.get<std::string>() : otherwise;
}

/// The file that `key` of `with` names, below the workflow's folder; empty if only a run can tell.
fs::path known_place(const Workflow& workflow, const Json& with, const std::string& key) {
  const Json value = with.is_object() && !key.empty() ? with.value(key, Json()) : Json();
  if (!value.is_string() || value.get_ref<const std::string&>().find("${{") != std::string::npos) {
    return {};
  }
  const fs::path place = fs::absolute(workflow.file).parent_path() / value.get<std::string>();
  std::error_code none;
  return fs::exists(place, none) ? place : fs::path();
}

/// The hashes by which a measurement of the step may name its model: SHA-256 of the model's text,
/// or of each input of a command. Empty: only a run can tell.
std::set<std::string> models_of(const Workflow& workflow, const Step& step, const Json& with) {
  std::set<std::string> hashes;
  if (const StepKind* kind = find_step_kind(step.uses)) {
    const fs::path file = known_place(workflow, with, kind->model);
    if (file.empty()) return hashes;
    const std::string text = read_file(file);
    return {sha256_hex(text), sha256_hex(runtime::parse_model(text, file.string()).text)};
  }
  for (const std::string& input : step.inputs) {
    const fs::path file = fs::absolute(workflow.file).parent_path() / input;
    std::error_code none;
    if (fs::is_regular_file(file, none)) hashes.insert(sha256_hex(read_file(file)));
  }
  return hashes;
}

/// Samples of an epoch; 0 if the data set is made in a run.
double samples_of(const Workflow& workflow, const Step& step, const Json& with) {
  const StepKind* kind = find_step_kind(step.uses);
  const fs::path folder = kind == nullptr ? fs::path() : known_place(workflow, with, kind->data);
  if (folder.empty()) return 0;
  try {
    const auto data =
        runtime::open_dataset(folder, runtime::Split::Train, runtime::Proof::Structure);
    const size_t held_out =
        data.num_validation > 0
            ? data.num_validation
            : runtime::validation_samples(runtime::parse_train_settings(with), data.size());
    return double(data.size() - held_out);
  } catch (const std::exception&) {  // which `validate` and the job tell
    return 0;
  }
}

Training training_of(const Workflow& workflow, const Step& step, const Json& with,
                     const Measurement& measurement) {
  Training training;
  training.samples =
      measurement.samples > 0 ? measurement.samples : samples_of(workflow, step, with);
  if (step.uses.empty()) {  // a script: as its measurement says
    training.exact = measurement.points.front().mode == "exact";
    training.per_rank = true;
    return training;
  }
  training.exact = trains_exactly(with);
  training.per_rank = with.contains("batch_per_rank");
  training.batch = (training.per_rank ? number_at(with, "batch_per_rank").value_or(0)
                                      : number_at(with, "batch").value_or(LeafSettings{}.batch)) *
                   number_at(with, "accumulate").value_or(1);
  training.epochs = number_at(with, "epochs").value_or(0);
  const std::string wire = word_of(with, "gradients", "wire", "fp32");
  training.compression =
      word_of(with, "gradients", "compression", wire == "fp32" ? "none" : wire.c_str());
  const Json gradients = with.value("gradients", Json::object());
  training.priority = !gradients.is_object() || gradients.value("priority", Json(true)) == true;
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

void add_candidate(std::vector<PlannedLayout>& all, const PlannedLayout& one) {
  const auto is_same = [&](const PlannedLayout& other) { return other.layout == one.layout; };
  if (std::ranges::none_of(all, is_same)) all.push_back(one);
}

/// Powers of two and what was measured, laid out as the profile does and as was measured, up to
/// four times the ranks that were measured or to the limit.
std::vector<PlannedLayout> candidates_of(const Json& resources, const Profile& profile,
                                         const StepModel& model, const Measurement& measurement) {
  const bool is_local = !has_batch_system(profile);
  const int per_node = ranks_of_node(resources, profile);
  const int limit = is_local ? per_node : profile.limits.nodes * per_node;
  int measured = 1;
  for (const MeasuredPoint& point : measurement.points) measured = std::max(measured, point.ranks);
  const int working = model.most_ranks() > 0 ? model.most_ranks() : INT_MAX;
  constexpr int kBeyond = 4, kMost = 1024;
  const int most = std::min(kMost, std::max(limit, kBeyond * measured));
  std::set<int> ranks = {most};
  for (int p = 1; p <= most; p *= 2) ranks.insert(p);
  std::vector<PlannedLayout> all;
  for (const int p : ranks) {
    const int nodes = is_local ? 1 : per_node == 0 ? p : (p + per_node - 1) / per_node;
    add_candidate(all, {{p, nodes}, (limit == 0 || p <= limit) && p <= working});
    for (const MeasuredPoint& point : measurement.points) {
      const int together = point.ranks / point.nodes;
      if (point.nodes == 1 || p % together != 0) continue;
      add_candidate(all, {{p, p / together}, false});
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
          ? "run it with DLFLOW_PROFILE_STEPS: \"20\" in its `env:`, over the backend dlflow"
          : "run it once, then type `DLFLOW_STEP=" + step.name +
                " DLFLOW_CACHE=" + shell_quote(cache.string()) +
                " dlflow-train --profile-steps 20 RUN/steps/" + step.name +
                "/attempt-1/with.json`, and the same behind `mpirun -np 2`";
  throw_at(
      workflow, step.location,
      "step '" + step.name + "' " +
          (changed ? "was measured with another model or precision" : "has not been measured") +
          ": " + advice);
}

}  // namespace

MeasuredStep measured_step(const Workflow& workflow, const Step& step, const Profile& profile,
                           const fs::path& file) {
  const auto [with, resources] = first_element(workflow, step);
  const Profile place = class_of_step(step, profile);
  const fs::path cache = cache_directory(profile);
  const std::vector<fs::path> files =
      file.empty() ? measurement_files(cache, step.name) : std::vector{file};
  if (files.empty()) throw_unmeasured(workflow, step, cache, false);
  const std::set<std::string> models = models_of(workflow, step, with);
  const std::string compute = word_of(with, "precision", "compute", "fp32");
  for (const fs::path& candidate : files) {
    MeasuredStep found;
    found.measurement = measurement_from_json(read_json_file(candidate), candidate.string());
    found.is_of_model = (models.empty() || models.contains(found.measurement.model)) &&
                        (step.uses.empty() || found.measurement.compute == compute);
    if (file.empty() && !found.is_of_model) continue;
    found.file = candidate;
    found.training = training_of(workflow, step, with, found.measurement);
    found.bounds.cpus_per_rank = int(number_at(resources, "cpus_per_rank").value_or(1));
    found.bounds.node_memory_bytes =
        double(has_batch_system(profile) ? place.node.memory_bytes : profile.memory_bytes);
    const Network network(found.measurement.network);
    const StepModel model(found.measurement, network, found.training);
    found.candidates = candidates_of(resources, place, model, found.measurement);
    return found;
  }
  throw_unmeasured(workflow, step, cache, true);
}

Advice advice_for(const MeasuredStep& step, double bandwidth, bool only_own_batch) {
  const Network network = Network(step.measurement.network).with_bandwidth(bandwidth);
  Bounds bounds = step.bounds;
  bounds.only_own_batch = only_own_batch;
  return advise(StepModel(step.measurement, network, step.training), step.candidates, bounds);
}

std::map<std::string, int> automatic_ranks(const Workflow& workflow, const Profile& profile,
                                           const std::string& until) {
  std::map<std::string, int> ranks;
  const auto wanted =
      until.empty() ? std::vector<bool>(workflow.steps.size(), true) : needed_for(workflow, until);
  for (size_t i = 0; i < workflow.steps.size(); ++i) {
    const Step& step = workflow.steps[i];
    const Json asked = first_element(workflow, step).resources;
    const bool is_automatic = asked.is_object() && asked.value("ranks", Json()) == kAutomaticRanks;
    if (!wanted[i] || !is_automatic) continue;
    const Advice advice = advice_for(measured_step(workflow, step, profile), 1, true);
    if (!advice.recommended) {
      throw_at(workflow, step.location_of("resources.ranks"),
               "step '" + step.name + "': no number of ranks fits; `dlflow plan " +
                   shell_quote(workflow.file) + " " + step.name + "` shows why");
    }
    ranks[step.name] = advice.predictions[*advice.recommended].layout.ranks;
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

Json to_json(const Prediction& p) {
  return {{"ranks", p.layout.ranks},
          {"nodes", p.layout.nodes},
          {"batch", p.batch},
          {"compression", p.compression},
          {"step_s", p.step_s},
          {"exposed_s", p.exposed_s},
          {"efficiency", p.efficiency},
          {"time_s", p.time_s ? Json(*p.time_s) : Json()},
          {"core_hours", p.core_hours ? Json(*p.core_hours) : Json()},
          {"fits", p.fits}};
}

Json predictions_of(const Workflow& workflow, const Profile& profile,
                    const std::map<std::string, int>& automatic) {
  Json predictions = Json::object();
  for (const Step& step : workflow.steps) {
    const StepKind* kind = find_step_kind(step.uses);
    const bool is_training = kind != nullptr && kind->divides_into_leaves;
    if (!is_training || !step.matrix.empty()) continue;
    try {
      MeasuredStep measured = measured_step(workflow, step, profile);
      Json asked = first_element(workflow, step).resources;
      if (const auto found = automatic.find(step.name); found != automatic.end()) {
        asked["ranks"] = found->second;
      }
      const Resources resources = resources_from_json(asked);
      const int nodes =
          has_batch_system(profile) ? num_nodes(resources, class_of_step(step, profile)) : 1;
      measured.candidates = {{{resources.ranks, std::max(1, nodes)}, true}};
      const Advice advice = advice_for(measured, 1, true);
      if (!advice.predictions.empty()) {
        predictions[step.name] = to_json(advice.predictions.front());
      }
    } catch (const Error&) {  // not measured, or by a file that `dlflow plan` refuses
    }
  }
  return predictions;
}

}  // namespace dlflow
