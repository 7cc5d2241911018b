#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/json.h"

/// The inputs of a step program and the places for its results: the DLFLOW_* variables of
/// docs/contributor/reference.md.
namespace dlflow::steps {

struct StepEnvironment {
  Json with;                      ///< the object in $DLFLOW_WITH
  std::filesystem::path outputs;  ///< $DLFLOW_OUTPUTS, a folder that exists
  std::filesystem::path metrics;  ///< $DLFLOW_METRICS
  std::filesystem::path summary;  ///< $DLFLOW_SUMMARY
};

/// Reads the environment. Throws Error{InvalidInput} naming the faulty variable or file.
StepEnvironment read_step_environment();

/// Writes outputs.json: output name -> value or {"value":…, "sha256":…, "from":…}; "from" is the
/// parent's output from which the value was selected.
void write_outputs(const StepEnvironment& environment, const Json& outputs);

/// Writes the summary, one flat object of numbers.
void write_summary(const StepEnvironment& environment, const Json& metrics);

/// Calls `step`; prints an exception as "error: …" on standard error and returns exit status 1.
int run_step(const std::function<int()>& step);

}  // namespace dlflow::steps
