#pragma once

#include <set>

#include "base/parse_json.h"
#include "engine/plan/plan.h"

/// RUN/plan.json: the settings that, with the frozen text, produce the same plan again. Its keys
/// are in docs/contributor/store-format.md.
namespace dlflow {

Json frozen_settings(const Plan& plan);

/// Its key `profile`, which `dlflow profile show --json` prints, too.
Json to_json(const Profile& profile);

/// plan.json names every job with a reused result: 100,000 jobs take 50 MiB.
inline constexpr JsonLimits kPlanLimits{.max_bytes = size_t{1} << 30};

/// The content of plan.json. Decisions refer to jobs by name.
struct FrozenSettings {
  std::string run;
  Time created{};
  std::string workflow_file;     ///< as the user gave it
  std::filesystem::path folder;  ///< its absolute folder
  Json params;
  std::map<std::string, std::string> written;  ///< see Workflow
  PlanOptions options;
  Profile profile;
  std::map<std::string, Digest> images;
  std::string release_image;               ///< its `from`; empty: no step runs in it
  std::set<std::string> in_release_image;  ///< steps
  std::string sources = "sources";
  ContentHashes files;
  ContentHashes outside;
  ContentHashes data;
  std::set<std::string> secret_variables;                  ///< see Plan
  std::map<std::string, std::vector<std::string>> inputs;  ///< by step
  std::map<std::string, Json> visible_params;              ///< by step
  std::map<std::string, Json> conditions;                  ///< by step, see PlannedStep
  std::map<std::string, int> versions;                     ///< by step
  std::set<std::string> sees_run;                          ///< steps, see sees_run()
  std::map<std::string, KnownResult> reused;               ///< by job
};

/// Throws Error{Corrupt}, also if a newer dlflow wrote it.
FrozenSettings frozen_settings_from_json(const Json& json);

}  // namespace dlflow
