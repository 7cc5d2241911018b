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
  /// With `run`, `created`, `base`, `profile`, `options`, the hashes of its files, and the file and
  /// the parameters of `workflow`.
  Plan plan;
  std::map<std::string, Digest> images;
  std::string release_image;                  ///< its `from`; empty: no step runs in it
  std::set<std::string> in_release_image;     ///< steps
  std::map<std::string, FrozenStep> steps;    ///< by name
  std::map<std::string, KnownResult> reused;  ///< by job
};

/// Throws Error{Corrupt}, also if a newer dlflow wrote it.
FrozenSettings frozen_settings_from_json(const Json& json);

}  // namespace dlflow
