#pragma once

#include <filesystem>
#include <string>

#include "engine/plan/job.h"

namespace dlflow::test {

/// The only job of a run in `folder`; it runs `script`.
inline JobSpec demo_spec(const std::filesystem::path& folder, const std::string& script) {
  JobSpec spec;
  spec.run = "demo-1";
  spec.job = "step";
  spec.step = "step";
  spec.run_command = script;
  spec.run_directory = folder;
  spec.job_directory = folder / "steps" / "step";
  spec.cache = folder / "cache";
  spec.fingerprint_base = "{}";
  return spec;
}

}  // namespace dlflow::test
