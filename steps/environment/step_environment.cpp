#include "steps/environment/step_environment.h"

#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow::steps {
namespace {

std::string required_variable(const char* name) {
  std::string value = environment_variable(name);
  if (value.empty()) {
    throw Error(Errc::InvalidInput,
                std::string("$") + name + " is not set: this program is started by `dlflow run`");
  }
  return value;
}

}  // namespace

StepEnvironment read_step_environment() {
  const std::string with = required_variable("DLFLOW_WITH");
  StepEnvironment environment{.with = parse_json(read_file(with)),
                              .outputs = required_variable("DLFLOW_OUTPUTS"),
                              .metrics = required_variable("DLFLOW_METRICS"),
                              .summary = required_variable("DLFLOW_SUMMARY")};
  if (!environment.with.is_object()) {
    throw Error(Errc::InvalidInput, with + " is not a JSON object");
  }
  make_directories(environment.outputs);
  return environment;
}

void write_outputs(const StepEnvironment& environment, const Json& outputs) {
  write_file_atomic(environment.outputs / "outputs.json", outputs.dump(2) + "\n");
}

void write_summary(const StepEnvironment& environment, const Json& metrics) {
  write_file_atomic(environment.summary, metrics.dump(2) + "\n");
}

int run_step(const std::function<int()>& step) {
  try {
    return step();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", escaped_lines(error.what()).c_str());
    return 1;
  }
}

}  // namespace dlflow::steps
