#pragma once

#include <map>
#include <string>

#include "base/sha256.h"
#include "engine/plan/plan.h"

namespace dlflow::test {

/// A fingerprint for each name.
inline Fingerprint fingerprint_named(const std::string& name) {
  return Fingerprint::of_hex(sha256_hex(name));
}

/// Earlier results by their fingerprints, without a store.
class KnownByFingerprint : public KnownResults {
 public:
  /// Adds all jobs of `plan` as succeeded, each with one output.
  void learn(const Plan& plan) {
    std::map<uint32_t, KnownResult> results;
    for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
      KnownResult result;
      result.run = plan.run;
      result.job = plan.jobs[job].name;
      result.directory = job_directory(plan, job);
      result.outputs["path"] = {{"value", result.job}, {"sha256", "hash of " + result.job}};
      const auto left = [&](uint32_t parent) {
        return as_parent(plan, parent, results.at(parent));
      };
      const PlannedJob& planned = plan.jobs[job];
      result.fingerprint = fingerprint(fingerprint_base(plan, job),
                                       (*plan.steps[planned.step].elements)[planned.element],
                                       parents_as_seen(plan, job, left));
      known_[result.fingerprint] = result;
      results[job] = std::move(result);
    }
  }

  std::optional<KnownResult> find(const Fingerprint& fingerprint,
                                  std::span<const std::string>) override {
    const auto found = known_.find(fingerprint);
    if (found == known_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::map<Fingerprint, KnownResult> known_;
};

}  // namespace dlflow::test
