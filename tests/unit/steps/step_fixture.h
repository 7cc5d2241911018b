#pragma once

#include <stdlib.h>

#include <string>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/temp_dir.h"

namespace dlflow::test {

/// The engine's preparation for one execution of a step: its folders, with.json, the environment.
/// Sets variables of this process, so only one can exist at a time.
class StepFixture {
 public:
  explicit StepFixture(const Json& with) {
    set("DLFLOW_WITH", folder_.write("with.json", with.dump()));
    set("DLFLOW_OUTPUTS", outputs());
    set("DLFLOW_METRICS", folder_.path() / "metrics.jsonl");
    set("DLFLOW_SUMMARY", folder_.path() / "metrics.json");
    set("DLFLOW_CACHE", folder_.path() / "cache");
    ::unsetenv("DLFLOW_CACHE_BUDGET");
  }

  static void set(const char* name, const std::string& value) {
    DLFLOW_CHECK(::setenv(name, value.c_str(), 1) == 0);
  }

  const TempDir& folder() const { return folder_; }
  std::filesystem::path outputs() const { return folder_.path() / "outputs"; }
  Json outputs_json() const { return Json::parse(read_file(outputs() / "outputs.json")); }
  Json summary() const { return Json::parse(read_file(folder_.path() / "metrics.json")); }

 private:
  TempDir folder_;
};

}  // namespace dlflow::test
