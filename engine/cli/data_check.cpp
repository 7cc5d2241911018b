#include "engine/cli/data_check.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "base/error.h"
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

/// A value that is known before the run.
std::optional<std::string> known_text(const Json& with, const std::string& key) {
  const auto value = with.find(key);
  if (value == with.end() || !value->is_string()) return std::nullopt;
  std::string text = value->get<std::string>();
  if (!is_known(text) || parse_file_url(text)) return std::nullopt;
  return text;
}

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

/// Runs `check` and returns its Error as a mistake in `key`.
template <typename Check>
std::optional<DataMistake> mistake_at(const std::string& key, const Check& check) {
  try {
    check();
    return std::nullopt;
  } catch (const Error& error) {
    return DataMistake{key, error.what()};
  }
}

/// The same for a key of `with`.
template <typename Check>
std::optional<DataMistake> mistake_of(const std::string& key, const Check& check) {
  return mistake_at("with." + key, check);
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
  Context known;
  known.params = &workflow.params;
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

/// Checks data that exists.
std::optional<DataMistake> mistake_in(const Workflow& workflow, const StepKind& kind,
                                      const Json& with, const fs::path& folder) {
  const bool reads_test = kind.reads_test_split &&
                          with.value(kSplit, Json()) != runtime::split_name(runtime::Split::Train);
  const runtime::Split split = reads_test ? runtime::Split::Test : runtime::Split::Train;
  if (!kind.needs_answers && !runtime::is_data_set(folder)) return std::nullopt;  // new samples
  runtime::Dataset data;
  if (auto mistake = mistake_of(kind.data, [&] { data = open(folder, split); })) return mistake;
  if (auto mistake = mistake_of(kValidation, [&] { require_samples(data, with); })) return mistake;
  if (auto mistake = mistake_of(kSampling, [&] { require_sampling(data, with); })) return mistake;
  const auto model = model_of(workflow, kind, with);
  if (!model) return std::nullopt;
  const auto purpose = kind.needs_answers ? runtime::Purpose::Learn : runtime::Purpose::Predict;
  const auto fit = [&] { runtime::require_fit(*model, data, folder.string(), purpose); };
  if (auto mistake = mistake_of(kind.data, fit)) return mistake;
  const bool on_gpu = with.value(kDevice, Json()) == "cuda";
  if (!on_gpu || !runtime::learns_shares(*model, data)) return std::nullopt;
  return mistake_of(kDevice, runtime::refuse_shares_on_gpu);
}

/// Checks that `keep_best` and `stop_early` name metrics of the network, and that `class_weights`
/// and `label_smoothing` fit its classes.
std::optional<DataMistake> mistake_in_measures(const runtime::Model& model, const Json& with) {
  const Json stop = with.value(kStopEarly, Json()), weights = with.value(kClassWeights, Json());
  for (const char* const key : {kKeepBest, kStopEarly}) {
    if (!with.contains(key) || with.value("validation", Json()) != 0) continue;
    return DataMistake{"with.validation", "with: '" + std::string(key) +
                                              "' needs held-out samples; give "
                                              "'validation' a number above 0, or leave it out"};
  }
  if (auto mistake = mistake_of(
          kKeepBest, [&] { require_metric(model, kKeepBest, with.value(kKeepBest, Json())); })) {
    return mistake;
  }
  if (stop.is_object()) {
    const Json metric = stop.value(kMetric, Json());
    if (auto mistake =
            mistake_of(kStopEarly, [&] { require_metric(model, "stop_early.metric", metric); })) {
      return mistake;
    }
  }
  if (const Json smoothing = with.value(kLabelSmoothing, Json()); smoothing.is_number()) {
    const auto fits = [&] { runtime::require_smoothing_fits(model, smoothing.get<double>()); };
    if (auto mistake = mistake_of(kLabelSmoothing, fits)) return mistake;
  }
  if (!weights.is_array()) return std::nullopt;
  return mistake_of(kClassWeights,
                    [&] { runtime::require_class_weights_fit(model, weights.size()); });
}

/// "iou" for `select: max iou`, if it is known; empty for `latest`.
std::string selected_metric(const Json& with) {
  const std::string text = known_text(with, kSelect).value_or("");
  const size_t space = text.find(' ');
  return space == std::string::npos ? "" : std::string(trim(text.substr(space)));
}

Json values_of(const Json& with, std::initializer_list<std::string> keys) {
  Json values = Json::array();
  for (const std::string& key : keys) values.push_back(with.contains(key) ? with[key] : Json());
  return values;
}

}  // namespace

bool is_known(const Json& value) { return value.dump().find("${{") == std::string::npos; }

Json what_is_read(const StepKind& kind, const Json& with) {
  return values_of(
      with, {kind.data, kind.model, kind.checkpoint, kValidation, kSplit, kSampling, kDevice});
}

Json what_is_for_model(const StepKind& kind, const Json& with) {
  return values_of(with, {kind.model, kFreeze, kGroups, kKeepBest, kStopEarly, kClassWeights});
}

Json what_is_measured(const StepKind& kind, const Json& with) {
  return values_of(with, {kind.model, kind.checkpoint, kSelect});
}

std::optional<DataMistake> mistake_in_metrics(const Workflow& workflow, const Step& step,
                                              const StepKind& kind, const Json& with) {
  const std::string selected = kind.selects_from.empty() ? "" : selected_metric(with);
  if (selected.empty() && step.require.empty()) return std::nullopt;
  const auto model = model_of(workflow, kind, with);
  if (!model) return std::nullopt;
  const auto refuse = [&model](const std::string& key, const std::string& metric) {
    return [&model, key, metric] { runtime::refuse_foreign_metric(*model, key, metric); };
  };
  if (!selected.empty()) {
    if (auto mistake = mistake_of(kSelect, refuse(kSelect, selected))) return mistake;
  }
  for (const Requirement& requirement : step.require) {
    const std::string& metric = requirement.metric;
    if (auto mistake = mistake_at(kRequire + ("." + metric), refuse(kRequire, metric))) {
      return mistake;
    }
  }
  return std::nullopt;
}

std::optional<DataMistake> mistake_in_checkpoint(const Workflow& workflow, const Step& step,
                                                 const StepKind& kind, const Json& with) {
  const Json given = with.value(kind.checkpoint, Json());
  const auto name = step_named_in(given);
  if (!name || !kind.selects_from.empty()) return std::nullopt;
  const auto parent = std::ranges::find(workflow.steps, *name, &Step::name);
  if (parent == workflow.steps.end() || parent->uses.empty()) return std::nullopt;
  const std::string one = ", or select one in a step with `uses: checkpoint`";
  if (given.get<std::string>().find(".outputs.checkpoints") != std::string::npos) {
    return DataMistake{"with." + kind.checkpoint,
                       "this is the folder of all checkpoints of step '" + *name +
                           "'; write ${{ steps." + *name + ".outputs.model }}" + one};
  }
  const auto axes = axis_names(step.matrix);
  for (const std::string& axis : axis_names(parent->matrix)) {
    if (std::ranges::find(axes, axis) != axes.end()) continue;
    return DataMistake{"with." + kind.checkpoint,
                       "this is the list of the checkpoints of all elements of step '" + *name +
                           "'; give step '" + step.name + "' the axis '" + axis + "', too" + one};
  }
  return std::nullopt;
}

std::optional<DataMistake> mistake_for_model(const Workflow& workflow, const StepKind& kind,
                                             const Json& with) {
  const auto file = known_text(with, kind.model);
  if (!file) return std::nullopt;
  auto model = model_in(fs::path(workflow.file).parent_path() / *file);
  const auto frozen = known_patterns(with.value(kFreeze, Json::array()));
  if (!model || !frozen) return std::nullopt;
  if (auto mistake = mistake_of(kFreeze, [&] { runtime::freeze_layers(*model, *frozen); })) {
    return mistake;
  }
  const auto groups = known_patterns(with.value(kGroups, Json::array()));
  if (!groups) return std::nullopt;
  if (auto mistake = mistake_of(kGroups, [&] { runtime::require_groups_fit(*model, *groups); })) {
    return mistake;
  }
  return mistake_in_measures(*model, with);
}

std::optional<DataMistake> mistake_in_data(const Workflow& workflow, const Step& step,
                                           const StepKind& kind, const Json& with) {
  const auto place = known_text(with, kind.data);
  if (!place || may_be_made_before(workflow, step)) return std::nullopt;
  const fs::path folder = fs::path(workflow.file).parent_path() / *place;
  std::error_code none;
  if (fs::exists(folder, none)) return mistake_in(workflow, kind, with, folder);
  if (fs::path(*place).is_absolute()) return std::nullopt;
  return DataMistake{"with." + kind.data,
                     "there is no folder " + folder.string() + advice_for(folder, *place)};
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
  const auto read = [&] {
    data = open(fs::path(workflow.file).parent_path() / place.value(), runtime::Split::Train);
  };
  if (!place || mistake_of(kind.data, read)) return doubts;
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
