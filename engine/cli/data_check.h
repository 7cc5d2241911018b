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

/// Whether no part of it is an expression whose value only a run knows.
bool is_known(const Json& value);

/// The values of `with` that mistake_for_model() looks at.
Json what_is_for_model(const StepKind& kind, const Json& with);

/// The reason for which layers, parameters, metrics or classes that a step names are not those of
/// its network: the one that its job would give. Nothing if there is none, or if only a run can
/// tell.
std::optional<DataMistake> mistake_for_model(const Workflow& workflow, const StepKind& kind,
                                             const Json& with);

/// The reason for which the output that `with` names as a checkpoint is not one but several, in a
/// folder or a list; nothing if it is one, or if only a run can tell.
std::optional<DataMistake> mistake_in_checkpoint(const Workflow& workflow, const Step& step,
                                                 const StepKind& kind, const Json& with);

/// The values of `with` that mistake_in_metrics() looks at.
Json what_is_measured(const StepKind& kind, const Json& with);

/// The reason for which a metric of `require` or `select` is none that the step's network is
/// measured by. The network is the one that mistake_in_data() takes.
std::optional<DataMistake> mistake_in_metrics(const Workflow& workflow, const Step& step,
                                              const StepKind& kind, const Json& with);

/// The values of `with` that mistake_in_data() looks at.
Json what_is_read(const StepKind& kind, const Json& with);

/// The reason for which a step cannot read its data set, with its model and its `validation`: the
/// one that its job would give. The model of a checkpoint is that of the step that trains it, as
/// far as the workflow says which; a network that was trained already says it itself. Nothing if
/// there is none, or if only a run can tell: a command before it may make the data, and an absolute
/// path that is not here may be on a cluster. Reads no images. \param with  of one element, as far
/// as it is known
std::optional<DataMistake> mistake_in_data(const Workflow& workflow, const Step& step,
                                           const StepKind& kind, const Json& with);

/// Doubts whether a network and `batch` are meant for the data, if it is there: scores for classes
/// that the data does not have, and batches of more samples.
std::vector<DataMistake> doubts_about_data(const Workflow& workflow, const StepKind& kind,
                                           const Json& with);

}  // namespace dlflow
