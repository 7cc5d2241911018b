#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/model/step_kinds.h"
#include "engine/model/workflow.h"

namespace dlflow {

struct DataMistake {
  std::string key;  ///< of the step: "with.data", "require.loss"
  std::string text;
};

/// Whether `value` is free of expressions whose values are known only in a run.
bool is_known(const Json& value);

/// The values of `with` that mistake_for_model() reads.
Json what_is_for_model(const StepKind& kind, const Json& with);

/// Checks that the network has all layers, parameters, metrics and classes that a step names.
/// Returns the mistake that its job would report; nothing if there is none or it is known only in a
/// run.
std::optional<DataMistake> mistake_for_model(const Workflow& workflow, const StepKind& kind,
                                             const Json& with);

/// Checks that `with` names one checkpoint, rather than a folder or a list of several. Returns
/// nothing if it does, or if only a run can show it.
std::optional<DataMistake> mistake_in_checkpoint(const Workflow& workflow, const Step& step,
                                                 const StepKind& kind, const Json& with);

/// The values of `with` that mistake_in_metrics() reads.
Json what_is_measured(const StepKind& kind, const Json& with);

/// Checks that the step's network reports the metrics of `require` and `select`. Finds the network
/// like mistake_in_data().
std::optional<DataMistake> mistake_in_metrics(const Workflow& workflow, const Step& step,
                                              const StepKind& kind, const Json& with);

/// The values of `with` that mistake_in_data() reads.
Json what_is_read(const StepKind& kind, const Json& with);

/// Checks that a step can read its data set, with its model and its `validation`. Returns the
/// mistake that its job would report. The model of a checkpoint is in the checkpoint, or in the
/// step that will train it, if the workflow determines which. Returns nothing if there is no
/// mistake or it is known only in a run: a command before the step may make the data, and a missing
/// absolute path may exist on a cluster. Reads no images. \param with  of one element, as far as it
/// is known
std::optional<DataMistake> mistake_in_data(const Workflow& workflow, const Step& step,
                                           const StepKind& kind, const Json& with);

/// Doubts that a network and `batch` fit existing data: scores for classes that the data does not
/// have, and batches larger than the data.
std::vector<DataMistake> doubts_about_data(const Workflow& workflow, const StepKind& kind,
                                           const Json& with);

}  // namespace dlflow
