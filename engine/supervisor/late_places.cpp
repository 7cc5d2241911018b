#include "engine/supervisor/late_places.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "base/local_files.h"
#include "base/url.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

fs::path path_of(const std::string& place) {
  const auto url = parse_file_url(place);
  return fs::path(url ? url->path : place).lexically_normal();
}

std::vector<fs::path> published_by(std::span<const ParentResult> parents) {
  std::vector<fs::path> places;
  for (const ParentResult& parent : parents) {
    for (const Json& output : parent.outputs) {
      for (const std::string& place : places_in(output.value("value", Json()))) {
        places.push_back(path_of(place));
      }
    }
  }
  return places;
}

}  // namespace

std::optional<std::string> find_late_place(const JobSpec& spec, const Json& with,
                                           std::span<const ParentResult> parents) {
  std::set<std::string> known;
  for (std::string& place : places_named(spec.uses, spec.with)) known.insert(std::move(place));
  const std::vector<fs::path> published = published_by(parents);
  for (const std::string& place : places_named(spec.uses, with)) {
    if (known.contains(place) || spec.sources.outside.contains(place)) continue;
    const fs::path path = path_of(place);
    const bool is_output = std::ranges::any_of(
        published, [&](const fs::path& output) { return is_below(path, output); });
    if (is_output) continue;
    return place + " was not known when the run was planned, and is no output of a step";
  }
  return std::nullopt;
}

}  // namespace dlflow
