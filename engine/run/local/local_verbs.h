#pragma once

#include "engine/run/verbs.h"

namespace dlflow {

/// The verbs on runs on this machine.
class LocalVerbs : public Verbs {
 public:
  explicit LocalVerbs(const VerbServices& services) : services_(services) {}

  void create(Plan& plan) override;
  std::vector<PreviewedBatch> preview(const Plan& plan) override;
  std::string announcement(const Plan&) const override { return ""; }
  Outcome start(Plan plan, const RunOptions& options) override;
  Outcome detach(const Plan& plan, const RunOptions& options) override;
  Outcome resume(const std::filesystem::path& run_directory, const RunOptions& options) override;
  Outcome resubmit(const std::filesystem::path& run_directory, const PlanAgain& again,
                   const RunOptions& options) override;
  Cancelled cancel(const std::filesystem::path& run_directory,
                   const std::vector<std::string>& names) override;
  std::vector<RunStatus> refresh(const std::vector<std::filesystem::path>& run_directories,
                                 Detail detail) override;
  void check_idle(const std::filesystem::path&) override {}
  std::chrono::seconds look_interval() const override { return std::chrono::seconds(1); }

 private:
  VerbServices services_;
};

}  // namespace dlflow
