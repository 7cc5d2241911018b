#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/model/profile.h"

namespace dlflow {

/// What there is for jobs on this machine.
struct Machine {
  int cores = 1;
  uint64_t memory_bytes = 0;
  int gpus = 0;
  bool operator==(const Machine&) const = default;
};

/// What `profile` says; where it says 0, what this process may use: its CPU affinity and cgroup,
/// the memory of both, the devices /dev/nvidia0, ….
Machine local_machine(const Profile& profile);

/// Jobs as processes of this machine, as many at once as its cores, memory and GPUs allow. They
/// are started by a launcher (local_launcher.h) and outlive this object.
class LocalBackend : public Backend {
 public:
  /// \param launcher  the dlflow executable; empty: the frozen one of the run.
  explicit LocalBackend(const Machine& machine, std::filesystem::path launcher = {});
  ~LocalBackend() override;

  /// A job with several ranks may ask for more cores than there are: it then takes all of them.
  void check(const Plan& plan) const override;
  void begin(const std::filesystem::path& run_directory) override;
  bool has_room(const Resources& resources) const override;
  void submit(const Submission& submission) override;
  void recover(const Submission& submission) override;
  std::vector<Update> wait(std::chrono::milliseconds timeout, int interrupt) override;
  void stop(uint32_t job, Stop how) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlflow
