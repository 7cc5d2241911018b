#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/machine.h"

namespace dlflow {

/// Runs jobs as processes of this machine, as many at a time as its cores, memory and GPUs allow.
/// They are started by a launcher (local_launcher.h) and outlive this object.
class LocalBackend : public Backend {
 public:
  /// \param launcher  the dlflow executable; empty: the copy frozen in the run.
  explicit LocalBackend(Machine machine, std::filesystem::path launcher = {});
  ~LocalBackend() override;

  void check(const Plan& plan) const override;
  void begin(const std::filesystem::path& run_directory) override;
  bool has_room(const Resources& resources) const override;
  void submit(const Submission& submission) override;
  Recovery recover(const Submission& submission) override;
  std::vector<Update> wait(std::chrono::milliseconds timeout, int interrupt) override;
  bool withdraw(const Submission& submission) override;
  void stop(uint32_t job, Stop how) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlflow
