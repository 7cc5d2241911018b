#pragma once

#include <map>
#include <string>

#include "engine/plan/plan.h"

namespace dlflow::test {

/// Earlier results by their fingerprints, without a store.
class KnownByFingerprint : public KnownResults {
 public:
  /// As if all jobs of `plan` had succeeded, each with one output.
  void learn(const Plan& plan) {
    std::map<uint32_t, KnownResult> results;
    for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
      KnownResult result;
      result.run = plan.run;
      result.job = plan.jobs[job].name;
      result.directory = job_directory(plan, job);
      result.outputs["path"] = {{"value", result.job}, {"sha256", "hash of " + result.job}};
      std::vector<ParentResult> parents;
      for (const JobRange& range : plan.graph.parents(job)) {
        for (uint32_t p = range.first; p < range.first + range.count; ++p) {
          parents.push_back(
              {plan.workflow.steps[plan.jobs[p].step].name, results.at(p).outputs, Json::object()});
        }
      }
      known_[fingerprint(fingerprint_base(plan, job), parents)] = result;
      results[job] = std::move(result);
    }
  }

  std::optional<KnownResult> find(const std::string& fingerprint) override {
    const auto found = known_.find(fingerprint);
    if (found == known_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::map<std::string, KnownResult> known_;
};

}  // namespace dlflow::test
