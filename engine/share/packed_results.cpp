#include "engine/share/packed_results.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/local_files.h"
#include "base/not_finite.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/extension.h"
#include "engine/plan/layout.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/share/zip_reader.h"
#include "engine/supervisor/content_hash.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunRecord = "run/run.json";

Error damaged_record(const std::string& what) {
  return Error(Errc::Corrupt, std::string(kRunRecord) + " is damaged: " + what);
}

/// A path below a job's folder, in one of its trees; of a folder a '/' may follow it, since
/// children see a path as it was recorded. Throws Error{Corrupt} for any other.
std::string checked_path(const std::string& given) {
  const std::string path = given.substr(0, given.find_last_not_of('/') + 1);
  const std::string tree = path.substr(0, path.find('/'));
  const bool is_known =
      std::find(kResultTrees.begin(), kResultTrees.end(), tree) != kResultTrees.end();
  if (!is_known || !path_is_safe(path))
    throw damaged_record("'" + path + "' is no part of a result");
  return given;
}

/// A link's target, which may go up only at its beginning, and not out of the link's tree.
std::string checked_target(const std::string& link, const std::string& target) {
  const fs::path path = target;
  const fs::path reached = (fs::path(link).parent_path() / path).lexically_normal();
  if (path.empty() || path.is_absolute() || path != path.lexically_normal() || reached.empty() ||
      *reached.begin() != *fs::path(link).begin()) {
    throw damaged_record("the link '" + link + "' leads elsewhere");
  }
  return target;
}

/// The jobs of the packed run, by name.
class Record {
 public:
  Record(const fs::path& folder, PackedResults& results, FileHashes& hashes)
      : folder_(folder),
        results_(results),
        hashes_(hashes),
        json_(read_json_file(folder / kRunRecord, {.max_depth = kForeignJson.max_depth})) {
    json_.at("run").get_to(results.run);
    json_.at("dlflow").get_to(results.dlflow);
    results.started = from_rfc3339(json_.at("started").get<std::string>());
    for (const Json& job : json_.at("jobs")) {
      if (!jobs_.emplace(job.at("job").get<std::string>(), &job).second) {
        throw damaged_record("it names a job twice");
      }
    }
  }

  /// Lays out the plan with the lists that steps left, as the run was.
  void extend() {
    std::set<uint32_t> seen;  // steps
    for (uint32_t job = 0; job < plan().jobs.size(); ++job) {
      const uint32_t step = plan().jobs[job].step;
      if (!leaves_lists(plan(), step) || !has_result(job) || !seen.insert(step).second) continue;
      try {
        const auto extension = extension_for(plan(), left(job));
        if (!extension) continue;
        results_.plan = extended(plan(), *extension);
        job = 0;  // they have other numbers now
      } catch (const Error& error) {
        results_.refuse(job, error.what());
      }
    }
  }

  void take() {
    packed_plan_ = plan();
    const Json packed_data = json_.value("data", Json::object());
    for (const auto& [name, data] : packed_data.items()) {
      const auto here = packed_plan_.outside.find(name);
      if (here == packed_plan_.outside.end() || fs::path(name).is_absolute()) continue;
      const auto hash_of = [this](const fs::path& file) { return hashes_.sha256(file); };
      const fs::path place = plan().base / name;
      if (!fs::exists(place) || content_hash(place, hash_of) != data.at("sha256")) continue;
      here->second = data.at("identity").get<std::string>();
    }
    for (uint32_t job = 0; job < plan().jobs.size(); ++job) {
      if (is_open(plan(), job)) continue;
      if (!has_result(job)) {
        foresee(job);
        continue;
      }
      const PlannedJob& planned = plan().jobs[job];
      const auto packages = planned_packages(plan(), planned.step);
      const bool is_known = std::ranges::none_of(
          packages, [](const auto& installed) { return installed.second.empty(); });
      PackedResult result = result_of(job);
      if (acts_elsewhere(plan().workflow.steps[planned.step], result.known.outputs)) {
        results_.refuse(job, "what it does is elsewhere");
        continue;
      }
      const bool is_own = fingerprint_in(packed_plan_, job, false) == result.known.fingerprint;
      result.known.fingerprint = is_own ? fingerprint_here(job) : "";
      if (!is_known || result.known.fingerprint.empty()) {
        results_.refuse(job,
                        "here it would not run with the same (profile, packages, data, image)");
        continue;
      }
      results_.by_job.emplace(job, std::move(result));
    }
  }

 private:
  const Plan& plan() const { return results_.plan; }

  void foresee(uint32_t job) {
    if (!has_hashed_sources(plan(), plan().jobs[job])) return;
    const Json* const record = find(job);
    if (record == nullptr ||
        !satisfies_dependents(job_state(record->at("state").get<std::string>())))
      return;
    KnownResult left = known(job, *record);
    if (fingerprint_in(packed_plan_, job, false) != left.fingerprint) return;
    left.fingerprint = fingerprint_here(job);
    if (!left.fingerprint.empty()) results_.foreseen.emplace(left.fingerprint, std::move(left));
  }

  /// The fingerprint of a job in `plan`, with what its parents left. \param here  of parents their
  /// fingerprints with this user's data, not those of the record
  std::string fingerprint_in(const Plan& plan, uint32_t job, bool here) {
    const PlannedJob& planned = plan.jobs[job];
    const auto parents = parents_as_seen(plan, job, [&](uint32_t parent) {
      ParentResult result = left(parent);
      const bool counts = here && did_something_elsewhere(result) && !result.fingerprint.empty();
      if (counts) result.fingerprint = fingerprint_here(parent);
      return result;
    });
    return fingerprint(fingerprint_base(plan, job),
                       (*plan.steps[planned.step].elements)[planned.element], parents);
  }

  const std::string& fingerprint_here(uint32_t job) {
    const auto known = here_.find(job);
    if (known != here_.end()) return known->second;
    return here_[job] = fingerprint_in(plan(), job, true);
  }

  const Json* find(uint32_t job) const {
    const auto found = jobs_.find(plan().jobs[job].name);
    return found == jobs_.end() ? nullptr : found->second;
  }

  bool has_result(uint32_t job) const {
    const Json* record = find(job);
    return record != nullptr && record->contains("result");
  }

  KnownResult known(uint32_t job, const Json& record) const {
    KnownResult known{.run = results_.run, .job = plan().jobs[job].name, .directory = {}};
    known.directory = job_directory(folder_ / "run", known.job);
    record.at("fingerprint").get_to(known.fingerprint);
    known.metrics = record.at("metrics");
    for (const auto& [name, number] : known.metrics.items()) {
      if (!number_of(number)) throw damaged_record("metric '" + name + "' is no number");
    }
    for (const auto& [name, packed] : record.at("outputs").items()) {
      Json output = {{"sha256", packed.at("sha256").get<std::string>()}};
      const Json& value = packed.at("value");
      if (packed.contains("path")) {
        output["value"] = (known.directory / checked_path(packed.at("path"))).string();
      } else if (!places_in(value).empty()) {
        throw damaged_record("output '" + name + "' of '" + known.job + "' lies elsewhere");
      } else {
        output["value"] = value;
      }
      if (packed.value("executable", false)) output["executable"] = true;
      if (packed.contains("matrix")) {
        output["matrix"] = packed.at("matrix");
        if (!output["matrix"].is_object()) throw damaged_record("a 'matrix' is no object");
      }
      known.outputs[name] = std::move(output);
    }
    return known;
  }

  /// What the run's job left for its children, or what became of it.
  ParentResult left(uint32_t job) const {
    const Json* record = find(job);
    const JobState state =
        record == nullptr ? JobState::Skipped : job_state(record->at("state").get<std::string>());
    const bool is_done = satisfies_dependents(state);
    ParentResult result = as_parent(plan(), job, is_done ? known(job, *record) : KnownResult{});
    result.skipped = state == JobState::Skipped;
    result.failed = !is_done && !result.skipped;
    return result;
  }

  PackedResult result_of(uint32_t job) const {
    const Json& record = *find(job);
    const Json& packed = record.at("result");
    PackedResult result;
    result.known = known(job, record);
    for (const auto& [tree, hash] : packed.at("trees").items()) {
      result.trees[checked_path(tree)] = hash.get<std::string>();
    }
    for (const auto& [link, target] : packed.at("links").items()) {
      result.links[checked_path(link)] = checked_target(link, target.get<std::string>());
    }
    for (const Json& folder : packed.at("folders")) {
      result.folders.push_back(checked_path(folder.get<std::string>()));
    }
    const auto time = [&](const char* key) {
      return record.at(key).is_null() ? results_.started
                                      : from_rfc3339(record.at(key).get<std::string>());
    };
    result.started = time("started");
    result.ended = time("ended");
    return result;
  }

  fs::path folder_;
  PackedResults& results_;
  FileHashes& hashes_;
  Plan packed_plan_;                      // with the data as the run saw it
  std::map<uint32_t, std::string> here_;  // fingerprint_here()
  Json json_;
  std::map<std::string, const Json*, std::less<>> jobs_;
};

}  // namespace

bool acts_elsewhere(const Step& step, const Json& outputs) {
  const StepKind* kind = find_step_kind(step.uses);
  return kind == nullptr ? act_elsewhere(outputs) : kind->reuse == StepKind::Reuse::Never;
}

void PackedResults::refuse(uint32_t job, const std::string& why) {
  refused.push_back(plan.jobs[job].name + ": " + why);
}

std::string hash_of_tree(const fs::path& place, const std::string& tree,
                         const std::string& without) {
  const fs::path root = fs::canonical(place);
  Sha256 hash;
  for (const PublishedEntry& entry : list_published(root, tree)) {
    if (entry.name == without) continue;
    const fs::path path = root.string() + entry.name.substr(tree.size());
    Json line = {entry.name};
    if (fs::is_symlink(path) && is_below(target_of(path), root)) {
      line.push_back(
          target_of(path).lexically_relative(fs::canonical(path.parent_path())).string());
    } else if (!fs::is_directory(path)) {
      line.push_back(is_executable(path));
      line.push_back(sha256_file(path));
    }
    hash.update(line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
  }
  return hash.hex();
}

PackedResults read_packed_results(const fs::path& folder, Plan plan, FileHashes& hashes) {
  PackedResults results;
  results.plan = std::move(plan);
  try {
    Record record(folder, results, hashes);
    record.extend();
    record.take();
  } catch (const Json::exception& error) {
    throw damaged_record(reason_of(error));
  }
  return results;
}

}  // namespace dlflow
