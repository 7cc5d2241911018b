#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "engine/model/step_kinds.h"
#include "engine/model/workflow.h"

namespace dlflow {

/// A mistake in a step. Checks throw it.
struct DataMistake {
  std::string key;  ///< of the step: "with.data", "require.loss"
  std::string text;
};

/// Runs `check`; its Error becomes a mistake in `key`.
template <typename Check>
void check_at(const std::string& key, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    throw DataMistake{key, error.what()};
  }
}

/// The same for a key of `with`.
template <typename Check>
void check_with(const std::string& key, const Check& check) {
  check_at("with." + key, check);
}

/// A check of the elements of a step.
struct ElementCheck {
  /// Throws the DataMistake that the job of an element with this `with` would report, unless there
  /// is none or only the run can show it.
  std::function<void(const Json& with)> check;
  std::vector<std::string> keys = {};  ///< of `with` that it reads; empty: all
};

/// Whether `value` is free of expressions whose values are known only in a run.
bool is_known(const Json& value);

/// The text of a key of `with`, unless it is a file:// URL or known only in a run.
std::optional<std::string> known_text(const Json& with, const std::string& key);

/// Checks the checkpoint that a step reads, and that its network has all layers, parameters,
/// metrics and classes that the step names. The arguments must outlive the checks.
std::vector<ElementCheck> checks_of_network(const Workflow& workflow, const Step& step,
                                            const StepKind& kind);

/// Checks that a step can read its data set, with its network and its `validation`. The arguments
/// must outlive the check.
ElementCheck check_of_data(const Workflow& workflow, const Step& step, const StepKind& kind);

/// Doubts that a network and `batch` fit existing data: scores for classes that the data does not
/// have, and batches larger than the data.
std::vector<DataMistake> doubts_about_data(const Workflow& workflow, const StepKind& kind,
                                           const Json& with);

}  // namespace dlflow
