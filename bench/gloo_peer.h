#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/comm/communicator.h"

/// Gloo measured beside dlflow in one run: each rank has a Python process that is one rank of gloo
/// (gloo_peer.py) and sleeps while others are measured.
namespace dlflow::bench {

class GlooPeer {
 public:
  /// Collective. `python`: one with PyTorch. `program`: gloo_peer.py. `type`: of the summands.
  GlooPeer(runtime::Communicator& comm, const std::filesystem::path& python,
           const std::filesystem::path& program, runtime::DataType type);
  ~GlooPeer();
  GlooPeer(const GlooPeer&) = delete;
  GlooPeer& operator=(const GlooPeer&) = delete;

  /// The reason why gloo is not measured; empty if it is. The same on every rank.
  const std::string& missing() const { return missing_; }

  /// The median time of `calls` sums of `num_elements` numbers, in seconds. Collective.
  double seconds(size_t num_elements, int calls);

 private:
  std::string answer();

  std::filesystem::path folder_;  // with the two pipes
  pid_t pid_ = 0;
  std::fstream requests_, answers_;
  std::string missing_;
};

}  // namespace dlflow::bench
