#include "engine/supervisor/parents.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

JobSpec spec_of(const Json& command) {
  JobSpec spec;
  spec.run = "demo-1";
  spec.job = "step";
  spec.step = "step";
  spec.run_command = command;
  return spec;
}

}  // namespace

TEST_CASE("expressions of a job see the parameters, also those known later", "[resolve]") {
  JobSpec spec = spec_of({"echo", "${{ params.a }}", "${{ params.b }}"});
  spec.params = {{"a", "1"}};
  spec.late_params = {{"b", "2"}};
  CHECK(resolve(spec, {}).run_command == Json({"echo", "1", "2"}));
}

TEST_CASE("a job with a false condition is skipped, and one without a boolean is refused",
          "[resolve]") {
  JobSpec spec = spec_of({"true"});
  spec.params = {{"n", 3}};
  spec.condition = "${{ params.n > 3 }}";
  CHECK_THROWS_AS(resolve(spec, {}), Skip);
  spec.condition = "${{ params.n > 2 }}";
  CHECK_NOTHROW(resolve(spec, {}));
  spec.condition = "${{ params.n }}";
  CHECK_THROWS_WITH(resolve(spec, {}), "`if:` is 3, which is neither true nor false");
}

TEST_CASE("a relative place of data that a parent has selected is below the workflow's folder",
          "[resolve]") {
  JobSpec spec = spec_of({});
  spec.uses = "evaluate";
  spec.base = "/home/ann/workflow";
  spec.with = {{"data", "${{ steps.best.matrix.data }}"}, {"model", "/runs/best/model"}};
  ParentResult best;
  best.step = "best";
  const auto place = [&](const std::string& data) {
    best.outputs["model"] = {{"value", "/runs/best/model"}, {"matrix", {{"data", data}}}};
    return resolve(spec, {best}).with.at("data");
  };
  CHECK(place("sets/a") == "/home/ann/workflow/sets/a");
  CHECK(place("../sets/a") == "/home/ann/sets/a");
  CHECK(place("/data/a") == "/data/a");
}
