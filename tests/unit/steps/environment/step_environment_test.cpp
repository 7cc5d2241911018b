#include "steps/environment/step_environment.h"

#include <stdlib.h>

#include <filesystem>

#include "base/error.h"
#include "base/process.h"
#include "tests/support/catch.h"
#include "tests/unit/steps/step_fixture.h"

using namespace dlflow;
using namespace dlflow::steps;
using test::StepFixture;

TEST_CASE("a step gets its values and its folders", "[step environment]") {
  const StepFixture step(Json{{"epochs", 3}});
  const StepEnvironment environment = read_step_environment();
  CHECK(environment.with == Json{{"epochs", 3}});
  CHECK(environment.outputs == step.outputs());
  CHECK(std::filesystem::is_directory(step.outputs()));
  CHECK(environment.metrics == step.folder().path() / "metrics.jsonl");
  CHECK(environment.summary == step.folder().path() / "metrics.json");
}

TEST_CASE("a program started by hand names the missing variables", "[step environment]") {
  const char* name = GENERATE("DLFLOW_WITH", "DLFLOW_OUTPUTS", "DLFLOW_METRICS", "DLFLOW_SUMMARY");
  const StepFixture step(Json::object());
  ::unsetenv(name);
  CHECK(environment_variable(name).empty());
  CHECK_THROWS_WITH(
      read_step_environment(),
      "$" + std::string(name) + " is not set: this program is started by `dlflow run`");
}

TEST_CASE("values that are not an object are refused", "[step environment]") {
  const StepFixture step(GENERATE(Json(7), Json::array()));
  CHECK_THROWS_WITH(read_step_environment(), Catch::EndsWith("with.json is not a JSON object"));
}

TEST_CASE("outputs and summary are readable JSON", "[step environment]") {
  const StepFixture step(Json::object());
  const StepEnvironment environment = read_step_environment();
  write_outputs(environment, {{"model", "m"}});
  write_summary(environment, {{"loss", 0.5}});
  CHECK(read_file(step.outputs() / "outputs.json") == "{\n  \"model\": \"m\"\n}\n");
  CHECK(read_file(step.folder().path() / "metrics.json") == "{\n  \"loss\": 0.5\n}\n");
}

TEST_CASE("a step that fails ends with 1", "[step environment]") {
  CHECK(run_step([] { return 75; }) == 75);
  CHECK(run_step([]() -> int { throw Error(Errc::NotFound, "no data (expected here)"); }) == 1);
}
