#pragma once

#include <functional>
#include <string>
#include <vector>

/// What tests tell libfake_gpu and ask it: a plug-in (runtime/gpu/plugin_abi.h) that computes with
/// the reference layers on the host, and an NCCL whose ranks are threads, in one library without a
/// GPU. State is that of the calling thread, which is one rank.
namespace dlflow::test {

enum class NcclFault {
  None,
  Refused,     ///< a call returns an error
  LostPeer,    ///< a call returns, and its error comes later
  Silence,     ///< a call returns, and the device never comes to its end
  NeverReady,  ///< a call stays in progress
};

struct FakeGpu {
  int num_devices = 4;
  bool no_driver = false;
  int nccl_version = 22809;
  NcclFault fault = NcclFault::None;
  bool tensor_float32 = false;  ///< of the session that was opened last
  std::string broken_call;      ///< one of the plug-in, as "open": answers "the bus fell off"

  /// What was called since this was cleared, in order: "record e1 s1", "wait s2 e1",
  /// "all-reduce 16 s2", "backward 3" (operation 3), "ready" (it was announced), "abort". Streams
  /// and events are numbered as they were made. "build 32" is a batch of 32 that nobody prepared.
  std::vector<std::string> log;

  /// Called inside of what takes long on a device: "count_devices", "open", "prepare 32", "init".
  std::function<void(const std::string& call)> slow;
};

FakeGpu& fake_gpu();

/// What a stream of it is.
struct FakeStream {
  int number = 0;
  bool silent = false;  ///< what it is given is never done
};

}  // namespace dlflow::test
