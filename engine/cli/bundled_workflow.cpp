#include "engine/cli/bundled_workflow.h"

#include <set>

#include "base/error.h"
#include "base/sha256.h"
#include "base/url.h"
#include "engine/plan/plan.h"
#include "engine/share/bundle_reader.h"
#include "engine/share/contents.h"
#include "engine/store/store.h"
#include "steps/stage/staged_source.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Reads `json` like the stage step, but from the bundle's copy; nothing if it is not packed.
std::optional<steps::Source> packed_source(const Json& json, const fs::path& folder,
                                           const std::set<std::string>& packed) {
  if (!packed.contains(json.value("url", ""))) return std::nullopt;
  steps::Source source = steps::parse_request({{"sources", {json}}}).sources.front();
  const std::string copy = (folder / data_path(source.sha256)).string();
  source.address = steps::parse_address("file://" + percent_encoded(copy));
  return source;
}

}  // namespace

BundledWorkflow open_bundled_workflow(const fs::path& file) {
  BundleReader bundle(file);
  const Manifest& manifest = bundle.manifest();
  const fs::path folder =
      dlflow_home() / "bundles" / (manifest.name + "-" + sha256_file(file).substr(0, 16));
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    try {
      bundle.unpack(folder);
    } catch (const Error&) {
      if (!fs::exists(folder, ignored)) throw;  // otherwise another dlflow has unpacked it
    }
  }
  return {folder / manifest.workflow, settings(manifest)};
}

void use_packed_data(const Workflow& workflow, const Profile& profile) {
  const auto folder = unpacked_bundle(workflow.file);
  if (!folder) return;
  std::set<std::string> packed;
  for (const PackedData& data : read_manifest(*folder).data) {
    if (data.packed) packed.insert(data.url);
  }
  if (packed.empty()) return;
  steps::Cache cache(cache_directory(profile), profile.cache_budget_bytes);
  for (const StageSource& staged : stage_sources(workflow)) {
    const auto source = packed_source(staged.source, *folder, packed);
    if (!source || steps::find_staged(*source, cache)) continue;
    steps::stage_source(*source, cache, {});
  }
}

}  // namespace dlflow
