#include "engine/cli/data_check.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "base/url.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/class_sampler.h"
#include "runtime/data/split_files.h"
#include "runtime/fit/fit.h"
#include "runtime/fit/measures.h"
#include "runtime/nn/patterns.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr const char *kValidation = "validation", *kSplit = "split", *kDevice = "device";
constexpr const char *kSelect = "select", *kRequire = "require";
constexpr const char *kFreeze = "freeze", *kGroups = "groups";
constexpr const char *kKeepBest = "keep_best", *kStopEarly = "stop_early", *kMetric = "metric";
constexpr const char *kClassWeights = "class_weights", *kSampling = "sampling";
constexpr const char *kLabelSmoothing = "label_smoothing", *kBatch = "batch";

/// The patterns of `freeze` or of `groups`; nothing if one is known only in a run.
std::optional<std::vector<std::string>> known_patterns(const Json& entries) {
  std::vector<std::string> patterns;
  for (const Json& entry : entries) {
    const Json pattern = entry.is_object() ? entry.value("match", Json()) : entry;
    if (!pattern.is_string()) return std::nullopt;
    patterns.push_back(pattern.get<std::string>());
    if (!is_known(pattern)) return std::nullopt;
  }
  return patterns;
}

/// Whether a command runs before `step`, which may create or change the data.
bool may_be_made_before(const Workflow& workflow, const Step& step) {
  std::vector<std::string> waiting = step.needs;
  std::set<std::string> seen;
  while (!waiting.empty()) {
    const std::string name = waiting.back();
    waiting.pop_back();
    if (!seen.insert(name).second) continue;
    const auto parent = std::ranges::find(workflow.steps, name, &Step::name);
    if (parent == workflow.steps.end() || find_step_kind(parent->uses) == nullptr) return true;
    waiting.insert(waiting.end(), parent->needs.begin(), parent->needs.end());
  }
  return false;
}

/// "; did you mean 'digits'?", from the folders beside the missing one.
std::string advice_for(const fs::path& missing, const std::string& as_written) {
  std::vector<std::string> there;
  std::error_code none;
  const fs::path around = missing.has_parent_path() ? missing.parent_path() : ".";
  for (const auto& entry : fs::directory_iterator(around, none)) {
    if (!entry.is_directory(none)) continue;
    there.push_back((fs::path(as_written).parent_path() / entry.path().filename()).string());
  }
  std::ranges::sort(there);
  return did_you_mean(as_written, there);
}

/// Opens a data set without reading the images in .dlset files or checking those in other files.
runtime::Dataset open(const fs::path& folder, runtime::Split split) {
  return runtime::open_dataset(folder, split, runtime::Proof::Structure);
}

/// Throws if `sampling` needs classes that the samples lack, or has shares for other classes.
void require_sampling(const runtime::Dataset& data, const Json& with) {
  const Json sampling = with.value(kSampling, Json());
  if (sampling.is_array()) runtime::require_shares(data, sampling.size());
  if (sampling == "balanced") runtime::require_shares(data, 0);
}

/// Throws if `key` names a metric that the network does not have.
void require_metric(const runtime::Model& model, const std::string& key, const Json& metric) {
  if (!metric.is_string() || !is_known(metric)) return;
  runtime::require_measured(model, key, metric.get<std::string>());
}

void require_samples(const runtime::Dataset& data, const Json& with) {
  const auto validation = with.find(kValidation);
  if (validation == with.end() || !validation->is_number_integer()) return;
  if (data.num_validation > 0) runtime::refuse_validation_key();
  runtime::require_training_samples(data.size(), validation->get<size_t>());
}

/// Returns "train" for "${{ steps.train.outputs.model }}", if `text` has nothing else. Parsed by
/// hand, since std::regex uses stack for each character, and a bundle's text may have a million.
std::optional<std::string> step_named_in(const Json& text) {
  if (!text.is_string()) return std::nullopt;
  const std::string& all = text.get_ref<const std::string&>();
  std::string_view inner = trim(all);
  if (!inner.starts_with("${{") || !inner.ends_with("}}") || inner.size() < 5) return std::nullopt;
  inner = trim(inner.substr(3, inner.size() - 5));
  const std::vector<std::string> path = split(std::string(inner), '.');
  if (path.size() != 4 || path[0] != "steps" || path[2] != "outputs") return std::nullopt;
  const bool is_output =
      !path[3].empty() && std::ranges::all_of(path[3], [](char c) { return c >= 'a' && c <= 'z'; });
  return is_output ? std::optional(path[1]) : std::nullopt;
}

/// The model in `file`. Mistakes in it are reported for the step that names it.
std::optional<runtime::Model> model_in(const fs::path& file) {
  try {
    if (!fs::is_regular_file(file)) return std::nullopt;  // the planner reports it
    return runtime::parse_model(read_file(file), file.string());
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The model of an existing checkpoint. Its job reports mistakes in it.
std::optional<runtime::Model> model_of_checkpoint(const fs::path& folder) {
  try {
    const std::string text = runtime::read_checkpoint_info(folder).model;
    if (text.empty()) return std::nullopt;  // a Python script saved it
    return runtime::parse_model(text, folder.string());
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The network that a step trains or reads from a checkpoint. Follows steps that select a
/// checkpoint, if each refers to a single step.
std::optional<runtime::Model> model_of(const Workflow& workflow, const StepKind& kind,
                                       const Json& with) {
  const fs::path folder = fs::path(workflow.file).parent_path();
  if (const auto file = known_text(with, kind.model)) return model_in(folder / *file);
  if (kind.checkpoint.empty() || !with.contains(kind.checkpoint)) return std::nullopt;
  if (const auto place = known_text(with, kind.checkpoint)) {
    return model_of_checkpoint(folder / *place);
  }
  const Context known{.params = &workflow.params};
  const StepKind* reader = &kind;
  Json given = with;
  for (size_t steps = 0; steps < workflow.steps.size(); ++steps) {
    const auto name = step_named_in(given.value(reader->checkpoint, Json()));
    const auto step = std::ranges::find(workflow.steps, name.value_or(""), &Step::name);
    if (step == workflow.steps.end()) return std::nullopt;
    reader = find_step_kind(step->uses);
    given = step->with.evaluate_known(known);
    if (reader == nullptr || !given.is_object()) return std::nullopt;
    if (const auto file = known_text(given, reader->model)) return model_in(folder / *file);
    if (reader->checkpoint.empty()) return std::nullopt;
  }
  return std::nullopt;
}

void check_existing(const Workflow& workflow, const StepKind& kind, const Json& with,
                    const fs::path& folder) {
  const bool reads_test = kind.reads_test_split &&
                          with.value(kSplit, Json()) != runtime::split_name(runtime::Split::Train);
  const runtime::Split split = reads_test ? runtime::Split::Test : runtime::Split::Train;
  if (!kind.needs_answers && !runtime::is_data_set(folder)) return;  // new samples
  runtime::Dataset data;
  check_with(kind.data, [&] { data = open(folder, split); });
  check_with(kValidation, [&] { require_samples(data, with); });
  check_with(kSampling, [&] { require_sampling(data, with); });
  const auto model = model_of(workflow, kind, with);
  if (!model) return;
  const auto purpose = kind.needs_answers ? runtime::Purpose::Learn : runtime::Purpose::Predict;
  check_with(kind.data, [&] { runtime::require_fit(*model, data, folder.string(), purpose); });
  const bool on_gpu = with.value(kDevice, Json()) == "cuda";
  if (on_gpu && runtime::learns_shares(*model, data)) {
    check_with(kDevice, runtime::refuse_shares_on_gpu);
  }
}

/// Checks that `keep_best` and `stop_early` name metrics of the network, and that `class_weights`
/// and `label_smoothing` fit its classes.
void check_measures(const runtime::Model& model, const Json& with) {
  const Json stop = with.value(kStopEarly, Json()), weights = with.value(kClassWeights, Json());
  for (const char* const key : {kKeepBest, kStopEarly}) {
    if (!with.contains(key) || with.value("validation", Json()) != 0) continue;
    throw DataMistake{"with.validation", "with: '" + std::string(key) +
                                             "' needs held-out samples; give "
                                             "'validation' a number above 0, or leave it out"};
  }
  check_with(kKeepBest, [&] { require_metric(model, kKeepBest, with.value(kKeepBest, Json())); });
  if (stop.is_object()) {
    const Json metric = stop.value(kMetric, Json());
    check_with(kStopEarly, [&] { require_metric(model, "stop_early.metric", metric); });
  }
  if (const Json smoothing = with.value(kLabelSmoothing, Json()); smoothing.is_number()) {
    check_with(kLabelSmoothing,
               [&] { runtime::require_smoothing_fits(model, smoothing.get<double>()); });
  }
  if (weights.is_array()) {
    check_with(kClassWeights, [&] { runtime::require_class_weights_fit(model, weights.size()); });
  }
}

/// "iou" for `select: max iou`, if it is known; empty for `latest`.
std::string selected_metric(const Json& with) {
  const std::string text = known_text(with, kSelect).value_or("");
  const size_t space = text.find(' ');
  return space == std::string::npos ? "" : std::string(trim(text.substr(space)));
}

/// Checks that the step's network reports the metrics of `require` and `select`. Finds the network
/// like check_place_of_data().
void check_metrics(const Workflow& workflow, const Step& step, const StepKind& kind,
                   const Json& with) {
  const std::string selected = kind.selects_from.empty() ? "" : selected_metric(with);
  if (selected.empty() && step.require.empty()) return;
  const auto model = model_of(workflow, kind, with);
  if (!model) return;
  if (!selected.empty()) {
    check_with(kSelect, [&] { runtime::refuse_foreign_metric(*model, kSelect, selected); });
  }
  for (const Requirement& requirement : step.require) {
    const std::string& metric = requirement.metric;
    check_at(kRequire + ("." + metric),
             [&] { runtime::refuse_foreign_metric(*model, kRequire, metric); });
  }
}

/// Checks that `with` names one checkpoint, rather than a folder or a list of several.
void check_checkpoint(const Workflow& workflow, const Step& step, const StepKind& kind,
                      const Json& with) {
  const Json given = with.value(kind.checkpoint, Json());
  const auto name = step_named_in(given);
  if (!name || !kind.selects_from.empty()) return;
  const auto parent = std::ranges::find(workflow.steps, *name, &Step::name);
  if (parent == workflow.steps.end() || parent->uses.empty()) return;
  const std::string one = ", or select one in a step with `uses: checkpoint`";
  if (given.get<std::string>().find(".outputs.checkpoints") != std::string::npos) {
    throw DataMistake{"with." + kind.checkpoint, "this is the folder of all checkpoints of step '" +
                                                     *name + "'; write ${{ steps." + *name +
                                                     ".outputs.model }}" + one};
  }
  const auto axes = axis_names(step.matrix);
  for (const std::string& axis : axis_names(parent->matrix)) {
    if (std::ranges::find(axes, axis) != axes.end()) continue;
    throw DataMistake{"with." + kind.checkpoint,
                      "this is the list of the checkpoints of all elements of step '" + *name +
                          "'; give step '" + step.name + "' the axis '" + axis + "', too" + one};
  }
}

/// Checks that the network has all layers, parameters, metrics and classes that a step names.
void check_model(const Workflow& workflow, const StepKind& kind, const Json& with) {
  const auto file = known_text(with, kind.model);
  if (!file) return;
  auto model = model_in(fs::path(workflow.file).parent_path() / *file);
  const auto frozen = known_patterns(with.value(kFreeze, Json::array()));
  if (!model || !frozen) return;
  check_with(kFreeze, [&] { runtime::freeze_layers(*model, *frozen); });
  const auto groups = known_patterns(with.value(kGroups, Json::array()));
  if (!groups) return;
  check_with(kGroups, [&] { runtime::require_groups_fit(*model, *groups); });
  check_measures(*model, with);
}

/// Checks that a step can read its data set, with its model and its `validation`. The model of a
/// checkpoint is in the checkpoint, or in the step that will train it, if the workflow determines
/// which. A command before the step may make the data, and a missing absolute path may exist on a
/// cluster. Reads no images.
void check_place_of_data(const Workflow& workflow, const Step& step, const StepKind& kind,
                         const Json& with) {
  const auto place = known_text(with, kind.data);
  if (!place || may_be_made_before(workflow, step)) return;
  const fs::path folder = fs::path(workflow.file).parent_path() / *place;
  std::error_code none;
  if (fs::exists(folder, none)) return check_existing(workflow, kind, with, folder);
  if (fs::path(*place).is_absolute()) return;
  throw DataMistake{"with." + kind.data,
                    "there is no folder " + folder.string() + advice_for(folder, *place)};
}

}  // namespace

bool is_known(const Json& value) { return value.dump().find("${{") == std::string::npos; }

std::optional<std::string> known_text(const Json& with, const std::string& key) {
  const auto value = with.find(key);
  if (value == with.end() || !value->is_string()) return std::nullopt;
  std::string text = value->get<std::string>();
  if (!is_known(text) || parse_file_url(text)) return std::nullopt;
  return text;
}

std::vector<ElementCheck> checks_of_network(const Workflow& workflow, const Step& step,
                                            const StepKind& kind) {
  return {{[&](const Json& with) { check_checkpoint(workflow, step, kind, with); }},
          {[&](const Json& with) { check_metrics(workflow, step, kind, with); },
           {kind.model, kind.checkpoint, kSelect}},
          {[&](const Json& with) { check_model(workflow, kind, with); },
           {kind.model, kFreeze, kGroups, kKeepBest, kStopEarly, kValidation, kClassWeights,
            kLabelSmoothing}}};
}

ElementCheck check_of_data(const Workflow& workflow, const Step& step, const StepKind& kind) {
  return {[&](const Json& with) { check_place_of_data(workflow, step, kind, with); },
          {kind.data, kind.model, kind.checkpoint, kValidation, kSplit, kSampling, kDevice}};
}

std::vector<DataMistake> doubts_about_data(const Workflow& workflow, const StepKind& kind,
                                           const Json& with) {
  std::vector<DataMistake> doubts;
  const auto model = model_of(workflow, kind, with);
  if (model && model->loss == runtime::LossKind::SoftmaxCrossEntropy &&
      model->layers.back().kind == runtime::LayerKind::Softmax) {
    doubts.push_back({"with." + kind.model,
                      "'" + model->layers.back().name + "', the last layer of model '" +
                          model->name + "', and its loss both apply softmax; leave the layer out"});
  }
  const auto place = known_text(with, kind.data);
  runtime::Dataset data;
  try {
    if (!place) return doubts;
    data = open(fs::path(workflow.file).parent_path() / *place, runtime::Split::Train);
  } catch (const Error&) {  // check_of_data() reports it
    return doubts;
  }
  const std::string classes = model ? runtime::note_on_classes(*model, data, *place) : "";
  if (!classes.empty()) doubts.push_back({"with." + kind.data, classes});
  const Json batch = with.value(kBatch, Json());
  if (batch.is_number_integer() && batch.get<size_t>() > data.size()) {
    doubts.push_back(
        {std::string("with.") + kBatch, "batch: " + batch.dump() + " is more than the " +
                                            std::to_string(data.size()) + " samples of " + *place +
                                            ", so that an epoch is one step; 128 is usual"});
  }
  return doubts;
}

}  // namespace dlflow
