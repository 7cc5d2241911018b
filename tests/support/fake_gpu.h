#pragma once

#include <functional>
#include <string>
#include <vector>

/// Controls and inspects libfake_gpu: a plug-in (runtime/gpu/plugin_abi.h) that computes with the
/// reference layers on the host, and an NCCL whose ranks are threads, in one library without a GPU.
/// Each thread is one rank with its own state.
namespace dlflow::test {

enum class NcclFault {
  None,
  Refused,     ///< a call returns an error
  LostPeer,    ///< a call returns, and its error comes later
  Silence,     ///< a call returns, and the device never finishes
  NeverReady,  ///< a call stays in progress
};

struct FakeGpu {
  int num_devices = 4;
  bool no_driver = false;
  int nccl_version = 22809;
  NcclFault fault = NcclFault::None;
  bool tensor_float32 = false;  ///< of the last opened session
  std::string broken_call;  ///< a plug-in's call, such as "open", that answers "the bus fell off"

  /// The calls since this was cleared, in order: "record e1 s1", "wait s2 e1", "all-reduce 16 s2",
  /// "backward 3" (operation 3), "ready" (it was announced), "abort". Streams and events are
  /// numbered in the order of creation. "build 32" is an unprepared batch of 32.
  std::vector<std::string> log;

  /// Called inside calls that are slow on a device: "count_devices", "open", "prepare 32", "init".
  std::function<void(const std::string& call)> slow;
};

FakeGpu& fake_gpu();

/// A stream of the fake device.
struct FakeStream {
  int number = 0;
  bool silent = false;  ///< its work never completes
};

}  // namespace dlflow::test
