#pragma once

#include <memory>

#include "engine/batch/batch_system.h"
#include "engine/run/verbs.h"

namespace dlflow {

/// The verbs on chains in a batch system.
class ChainVerbs : public Verbs {
 public:
  ChainVerbs(std::unique_ptr<BatchSystem> batch, const VerbServices& services)
      : batch_(std::move(batch)),
        services_{services.store, *batch_, services.clock, nullptr, services.tell} {}

  void create(Plan& plan) override { create_chain(plan, services_); }
  std::vector<PreviewedBatch> preview(const Plan& plan) override;
  std::string announcement(const Plan& plan) const override;
  Outcome start(Plan plan, const RunOptions& options) override;
  Outcome detach(const Plan& plan, const RunOptions& options) override;
  Outcome resume(const std::filesystem::path& run_directory, const RunOptions& options) override;
  Outcome resubmit(const std::filesystem::path& run_directory, const PlanAgain& again,
                   const RunOptions& options) override;
  Cancelled cancel(const std::filesystem::path& run_directory,
                   const std::vector<std::string>& names) override;
  std::vector<RunStatus> refresh(const std::vector<std::filesystem::path>& run_directories,
                                 Detail detail) override;
  void check_idle(const std::filesystem::path& run_directory) override;
  std::chrono::seconds look_interval() const override { return std::chrono::seconds(10); }

 private:
  Outcome submit(const std::filesystem::path& run_directory, const PlanAgain& again);

  std::unique_ptr<BatchSystem> batch_;
  ChainServices services_;
};

}  // namespace dlflow
