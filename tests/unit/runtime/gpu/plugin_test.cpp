#include "runtime/gpu/plugin.h"

#include <cstdlib>

#include "base/error.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/gpu/device_choice.h"
#include "runtime/gpu/nccl_library.h"
#include "tests/support/catch.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/on_ranks.h"
#include "tests/support/skip.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::fake_gpu;

namespace {

/// Checks that a library sets the variable `name` when it is opened, unless the user has set it.
template <typename Library>
void check_variable(const char* name, const std::string& ours, const std::string& theirs) {
  ::unsetenv(name);
  const Library first(DLFLOW_FAKE_GPU);
  CHECK(std::getenv(name) == ours);
  ::setenv(name, theirs.c_str(), 1);
  const Library second(DLFLOW_FAKE_GPU);
  CHECK(std::getenv(name) == theirs);
  ::unsetenv(name);
}

}  // namespace

TEST_CASE("a missing plug-in is named, with what to do") {
  CHECK_THROWS_WITH(GpuPlugin("/nowhere/libdlflow_cuda.so"),
                    Contains("'device: cuda' needs libdlflow_cuda") &&
                        Contains("/nowhere/libdlflow_cuda.so") && Contains("cannot open") &&
                        Contains("leave 'device' out"));
}

TEST_CASE("a plug-in of another interface is refused before it is used") {
  CHECK_THROWS_WITH(
      GpuPlugin(DLFLOW_OLD_PLUGIN),
      Contains("has interface 3, but this program supports 4") && Contains("one build"));
}

TEST_CASE("a library that is not a plug-in is refused") {
  CHECK_THROWS_WITH(GpuPlugin("libdl.so.2"), Contains("libdl.so.2 has no dlflow_gpu_plugin"));
}

TEST_CASE("a missing driver and a missing device give different messages") {
  const GpuPlugin plugin(DLFLOW_FAKE_GPU);
  fake_gpu() = {};
  CHECK(plugin.devices().size() == 4);
  CHECK(std::string(plugin.devices()[2].id) == "GPU-2");
  fake_gpu().num_devices = 0;
  CHECK_THROWS_WITH(plugin.devices(),
                    Contains("this process sees no GPU") && Contains("gpus_per_rank: 1"));
  fake_gpu().no_driver = true;
  CHECK_THROWS_WITH(plugin.devices(), Contains("there is no driver") && Contains("NVIDIA GPU"));
  fake_gpu() = {};
}

TEST_CASE("CUDA loads its kernels before the first step, unless the user says otherwise") {
  check_variable<GpuPlugin>("CUDA_MODULE_LOADING", "EAGER", "LAZY");
}

TEST_CASE("libdlflow_cuda opens, and reports why it finds no GPU") {
#ifdef DLFLOW_CUDA_PLUGIN
  const GpuPlugin plugin(DLFLOW_CUDA_PLUGIN);
  CHECK_THAT(plugin.arithmetic(), Contains("CUDA ") && Contains("cuDNN ") && Contains("cuBLASLt "));
  try {
    const std::vector<DlflowGpuDevice> devices = plugin.devices();
    CHECK_THAT(devices.at(0).id, Contains("GPU-"));
  } catch (const Error& e) {
    CHECK(e.code() == Errc::NotFound);
    CHECK_THAT(e.what(), Contains("no GPU can be used") && Contains("leave 'device: cuda' out"));
  }
#else
  test::skip("libdlflow_cuda was not built: CMake found no nvcc, cuDNN or cuBLASLt");
#endif
}

TEST_CASE("ranks of a node take its GPUs in order, or the only visible one") {
  const auto choose = [](int ranks, int visible) {
    return test::on_ranks(ranks, [visible](Communicator& comm) {
      std::vector<DlflowGpuDevice> devices(static_cast<size_t>(visible));
      for (size_t i = 0; i < devices.size(); ++i) devices[i].id[0] = char('a' + i);
      return choose_device(comm, devices);
    });
  };
  CHECK(choose(1, 1) == std::vector<int>{0});
  CHECK(choose(3, 4) == std::vector<int>{0, 1, 2});
  CHECK_THROWS_WITH(choose(2, 1),
                    Contains("ranks 0 and 1 share the GPU a") && Contains("gpus_per_rank: 1"));
  CHECK_THROWS_WITH(choose(3, 2), Contains("rank 2 finds no GPU of its own"));
}

TEST_CASE("ranks share GPUs if NCCL is set to allow several ranks per GPU") {
  std::vector<DlflowGpuDevice> devices(2);
  devices[0].id[0] = 'a';
  devices[1].id[0] = 'b';
  const auto choose = [&](Communicator& comm) { return choose_device(comm, devices); };
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  CHECK(test::on_ranks(3, choose) == std::vector<int>{0, 1, 0});
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);
  CHECK_THROWS_WITH(test::on_ranks(3, choose), Contains("rank 2 finds no GPU of its own"));
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST_CASE("ranks with disjoint visible GPUs take their first one") {
  const auto chosen = test::on_ranks(2, [](Communicator& comm) {
    std::vector<DlflowGpuDevice> devices(2);
    for (size_t i = 0; i < 2; ++i) devices[i].id[0] = char('a' + 2 * comm.rank() + int(i));
    return choose_device(comm, devices);
  });
  CHECK(chosen == std::vector<int>{0, 0});
}

TEST_CASE("only the first visible GPUs decide whether ranks have disjoint ones") {
  const auto chosen = test::on_ranks(2, [](Communicator& comm) {
    std::vector<DlflowGpuDevice> devices(2);
    devices[0].id[0] = char('a' + comm.rank());
    devices[1].id[0] = 'z';
    return choose_device(comm, devices);
  });
  CHECK(chosen == std::vector<int>{0, 0});
}

TEST_CASE("GPUs of other nodes do not influence the choice") {
  ThreadGroup two_nodes(4, std::chrono::seconds(10), 2);
  const auto chosen = test::on_ranks(two_nodes, 4, [](Communicator& comm) {
    std::vector<DlflowGpuDevice> devices(2);  // as if devices were numbered on each node
    for (size_t i = 0; i < 2; ++i) devices[i].id[0] = char('a' + 2 * comm.node_rank() + int(i));
    return choose_device(comm, devices);
  });
  CHECK(chosen == std::vector<int>{0, 0, 0, 0});
}

TEST_CASE("the same GPU number on two nodes is not a shared GPU") {
  const std::vector<int> two_nodes = {0, 1}, one_node = {0, 0};
  CHECK_NOTHROW(require_own_devices({"GPU-1", "GPU-1"}, two_nodes));
  CHECK_THROWS_WITH(require_own_devices({"GPU-1", "GPU-1"}, one_node), Contains("share"));
}

TEST_CASE("NCCL adds in a fixed order, unless the user says otherwise") {
  fake_gpu() = {};
  check_variable<NcclLibrary>("NCCL_NVLS_ENABLE", "0", "1");
}

TEST_CASE("a missing or old NCCL is named, with what to do") {
  fake_gpu() = {};
  CHECK_THROWS_WITH(NcclLibrary("libnccl-of-nowhere.so.2"),
                    Contains("several GPUs need NCCL") && Contains("libnccl-of-nowhere.so.2") &&
                        Contains("LD_LIBRARY_PATH"));
  CHECK(NcclLibrary(DLFLOW_FAKE_GPU).version() == "NCCL 2.28.9");
  fake_gpu().nccl_version = 21304;
  CHECK_THROWS_WITH(NcclLibrary(DLFLOW_FAKE_GPU), Contains("NCCL 2.13.4") && Contains("2.14"));
  fake_gpu().nccl_version = 2708;
  CHECK_THROWS_WITH(NcclLibrary(DLFLOW_FAKE_GPU), Contains("NCCL 2.7.8"));
  fake_gpu() = {};
}
