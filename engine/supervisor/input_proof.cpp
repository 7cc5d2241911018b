#include "engine/supervisor/input_proof.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/local_files.h"
#include "base/parse_json.h"
#include "base/secret_file.h"
#include "base/sha256.h"
#include "base/url.h"
#include "engine/container/image_source.h"
#include "engine/container/tree.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/inherited.h"
#include "engine/plan/installed.h"
#include "engine/plan/layout.h"
#include "engine/plan/programs.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/supervisor/launch.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Whether a frozen copy is untouched since the plan was made, so that it need not be read.
bool is_older(const FileIdentity& copy, const fs::path& run_directory) {
  std::error_code none;
  const fs::path plan = run_directory / "plan.json";
  return fs::exists(plan, none) && copy.ctime_ns < identity_of(plan).ctime_ns;
}

/// Otherwise only its permissions or its links changed: root in PRoot gets the permission to write
/// at each open(), and loses it again.
bool was_written(FileIdentity before, const FileIdentity& after) {
  before.ctime_ns = after.ctime_ns;
  return before != after;
}

/// \param identity_of_place  data_identity() or settled_identity()
std::optional<std::string> find_change_outside(
    const JobSpec& spec, std::string (*identity_of_place)(const std::string&)) {
  for (const auto& [place, identity] : spec.sources.outside) {
    if (identity_of_place(place) != identity) {
      return place + " changed after the run was planned";
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_change_of_packages(const JobSpec& spec) {
  FreshFileHashes hashes;
  for (const auto& [lock, packages] : spec.sources.packages) {
    if (packages.empty()) return unknown_packages(lock);
    if (installed_packages(lock, hashes) == packages) continue;
    return "the packages of its `environment:` changed after the run was planned: see " + lock;
  }
  return std::nullopt;
}

std::string value_in(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

/// Variables of `reuse:` and of the profile's `inherit:`. A variable that neither the plan nor the
/// node provides reaches no program.
std::optional<std::string> find_change_of_conditions(const JobSpec& spec) {
  const SourceProofs& then = spec.sources;
  if (then.variables.empty() && then.inherited.empty() && then.programs.empty()) return {};
  Variables now = caller_variables(spec);
  for (const std::string& name : spec.secrets) {
    if (then.inherited.contains(name)) {
      now.merge(read_secrets(secrets_file(spec.run_directory), {name}));
    }
  }
  const auto changed = [](const std::string& name) {
    return "the variable " + name + " has another value than when the run was planned";
  };
  for (const auto& [name, value] : spec.sources.variables) {
    const bool arrives = is_inherited(name, spec.inherit);
    if (arrives && value_in(now, name) != value) return changed(name);
  }
  for (const auto& [name, identity] : spec.sources.inherited) {
    if (sha256_hex(value_in(now, name)) != identity) return changed(name);
  }
  FreshFileHashes hashes;
  for (const auto& [name, identity] : spec.sources.programs) {
    if (identity.empty()) return unknown_program(name);
    const Json path = spec.environment.value("PATH", Json(value_in(now, "PATH")));
    if (program_identity(name, path.get<std::string>(), hashes) != identity) {
      return "the program " + name + " changed after the run was planned";
    }
  }
  return std::nullopt;
}

/// The longest tick of a file system's clock, within which two changes look like one.
constexpr std::chrono::seconds kLongestTick(2);

/// The folder of the image, if it must be checked.
fs::path image_of(const JobSpec& spec) {
  if (!spec.container) return {};
  const ImageSource source = image_source(spec.container->from, "/");
  return source.kind == ImageSource::Kind::Folder ? source.path : fs::path();
}

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

InputProof::InputProof(const JobSpec& spec)
    : spec_(spec), image_(spec), change_(find_change_at_start()) {}

std::optional<std::string> InputProof::find_change_at_start() {
  try {
    FreshFileHashes hashes;
    for (const auto& [copy, content] : spec_.sources.frozen) {
      const FileIdentity identity = identity_of(copy);
      if (!is_older(identity, spec_.run_directory) && content_of(copy, hashes) != content) {
        return copy + " was changed";
      }
      frozen_.emplace(copy, identity);
    }
    for (const auto& [place, identity] : spec_.sources.outside) {
      ways_.emplace(place, way_identity(place));
    }
    if (auto change = find_change_outside(spec_, settled_identity)) return change;
    for (const ParentRef& parent : spec_.parents) {
      const auto result = published_result(parent.directory);
      if (result) published_.emplace_back(&parent, result->published_nothing);
    }
    return find_change_beside_files();
  } catch (const std::exception& error) {
    return reason_of(error);
  }
}

std::optional<std::string> InputProof::find_change_beside_files() const {
  if (auto change = find_change_of_packages(spec_)) return change;
  if (auto change = find_change_of_conditions(spec_)) return change;
  if (auto change = image_.find_change()) return change;
  FreshFileHashes hashes;
  for (const auto& [parent, nothing] : published_) {
    if (const auto change = dlflow::find_change(parent->directory, hashes, nothing)) {
      return "of step " + parent->step + ", " + *change + " after it was published";
    }
  }
  return std::nullopt;
}

std::optional<std::string> InputProof::find_change_of_frozen() const {
  FreshFileHashes hashes;
  for (const auto& [copy, identity] : frozen_) {
    const FileIdentity now = identity_of(copy);
    if (now == identity) continue;
    if (!was_written(identity, now) && content_of(copy, hashes) == spec_.sources.frozen.at(copy)) {
      continue;
    }
    return copy.string() + " was changed while it ran";
  }
  return std::nullopt;
}

std::optional<std::string> InputProof::find_exchange() const {
  for (const auto& [place, way] : ways_) {
    if (way_identity(place) != way)
      return place + " was replaced while it ran, or its content changed for a time";
  }
  return std::nullopt;
}

std::optional<std::string> InputProof::find_change() const {
  if (change_) return change_;
  try {
    if (auto change = find_change_outside(spec_, data_identity)) return change;
  } catch (const std::exception& error) {
    return reason_of(error);
  }
  return find_change_that_may_be_undone();
}

std::optional<std::string> InputProof::find_change_that_may_be_undone() const {
  if (change_) return change_;
  try {
    if (auto change = find_change_of_frozen()) return change;
    if (auto change = find_exchange()) return change;
    return find_change_beside_files();
  } catch (const std::exception& error) {
    return reason_of(error);
  }
}

ImageProof::ImageProof(const JobSpec& spec, Clock clock)
    : spec_(spec), clock_(std::move(clock)), image_(image_of(spec)) {
  note_ = spec.run_directory / ("image-" + sha256_hex(image_.string()).substr(0, 16));
}

std::optional<std::string> ImageProof::find_change() const {
  if (image_.empty()) return std::nullopt;
  // workflow.yaml is as old as the run.
  if (is_unchanged_since(image_, spec_.run_directory / "workflow.yaml")) return std::nullopt;
  const std::string identity = tree_identity(image_);
  if (read_file_if_exists(note_) == identity) return std::nullopt;
  if (!first_) first_ = {identity, clock_()};
  FreshFileHashes hashes;
  const auto sha256 = [&](const fs::path& file) { return hashes.sha256(file); };
  if (image_digest(image_source(spec_.container->from, "/"), sha256) != spec_.container->digest) {
    return "the image " + image_.string() + " changed after the run was planned";
  }
  note(identity);
  return std::nullopt;
}

/// Notes `identity` for later jobs. A file that changed a moment before the first look might change
/// again in the same tick and look the same, so the identity is read once more after that tick.
void ImageProof::note(const std::string& identity) const {
  const bool is_settled = clock_() - first_->at >= kLongestTick;
  if (!is_settled || identity != first_->identity || tree_identity(image_) != identity) return;
  write_file_atomic(note_, identity);
}

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
    return place + " was not known when the run was planned, and is not an output of a step";
  }
  return std::nullopt;
}

}  // namespace dlflow
