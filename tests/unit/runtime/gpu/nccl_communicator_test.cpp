#include "runtime/gpu/nccl_communicator.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/on_ranks.h"

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::fake_gpu;
using test::NcclFault;

namespace {

DeviceFloats device(std::vector<float>& values) { return {values.data(), values.size()}; }

/// The objects of one rank, from its plug-in to its communicator.
struct Rank {
  explicit Rank(Communicator& host)
      : plugin(DLFLOW_FAKE_GPU), library(DLFLOW_FAKE_GPU), comm(host, library, plugin) {
    check_gpu(plugin->create_stream(&stream), "stream");
  }
  ~Rank() { plugin->destroy_stream(stream); }

  GpuPlugin plugin;
  NcclLibrary library;
  DlflowGpuStream stream = nullptr;
  NcclCommunicator comm;
};

/// The error of a single rank if `fault` happens in its all-reduce, and the calls made.
std::pair<std::string, std::vector<std::string>> message_of(NcclFault fault,
                                                            std::chrono::milliseconds timeout) {
  ThreadGroup group(1, timeout);
  std::pair<std::string, std::vector<std::string>> result;
  fake_gpu() = {};
  try {
    Rank rank(group.communicator(0));
    std::vector<float> values(16);
    fake_gpu().fault = fault;
    DeviceTransfer sum = rank.comm.start_sum(device(values), rank.stream);
    rank.comm.wait(sum);
  } catch (const Error& e) {
    if (e.code() == Errc::Unavailable) result.first = e.what();
  }
  result.second = fake_gpu().log;
  fake_gpu() = {};
  return result;
}

}  // namespace

TEST_CASE("ranks sum values on their devices") {
  const auto work = [](Communicator& host) {
    Rank rank(host);
    std::vector<float> small(5, float(host.rank() + 1)), large(1000, 1);
    DeviceTransfer a = rank.comm.start_sum(device(small), rank.stream);
    DeviceTransfer b = rank.comm.start_sum(device(large), rank.stream);
    rank.comm.wait(b);
    rank.comm.wait(a);
    return std::pair(small, large);
  };
  for (const auto& [small, large] : test::on_ranks(3, work)) {
    CHECK(small == std::vector<float>(5, 6));
    CHECK(large == std::vector<float>(1000, 3));
  }
}

TEST_CASE("communication waits for earlier kernels, and later kernels wait for it") {
  ThreadGroup group(1);
  fake_gpu() = {};
  Rank rank(group.communicator(0));
  std::vector<float> values(16);
  fake_gpu().log.clear();
  DeviceTransfer sum = rank.comm.start_sum(device(values), rank.stream);
  rank.comm.hold_back(rank.stream, sum);
  const std::vector<std::string> log = fake_gpu().log;
  REQUIRE(log.size() == 5);
  const std::string computes = log[0].substr(log[0].rfind(' ') + 1);
  const std::string sums = log[2].substr(log[2].rfind(' ') + 1);
  const std::string before = log[0].substr(7, log[0].rfind(' ') - 7);
  const std::string after = log[3].substr(7, log[3].rfind(' ') - 7);
  CHECK(computes != sums);
  CHECK(before != after);
  CHECK(log == std::vector<std::string>{"record " + before + " " + computes,
                                        "wait " + sums + " " + before, "all-reduce 16 " + sums,
                                        "record " + after + " " + sums,
                                        "wait " + computes + " " + after});
  rank.comm.wait(sum);
}

TEST_CASE("concurrent sums have events of their own, and a finished one's event is reused") {
  ThreadGroup group(1);
  fake_gpu() = {};
  Rank rank(group.communicator(0));
  std::vector<float> values(1);
  DeviceTransfer a = rank.comm.start_sum(device(values), rank.stream);
  DeviceTransfer b = rank.comm.start_sum(device(values), rank.stream);
  CHECK(a.number != b.number);
  const size_t number = a.number;
  CHECK(rank.comm.done(a));
  DeviceTransfer c = rank.comm.start_sum(device(values), rank.stream);
  CHECK(c.number == number);
  DeviceTransfer d = rank.comm.start_sum(device(values), rank.stream);
  CHECK(d.number != c.number);
}

TEST_CASE("an error of NCCL is reported in its words, and aborts the group") {
  ThreadGroup group(1);
  fake_gpu() = {};
  fake_gpu().fault = NcclFault::Refused;
  CHECK_THROWS_WITH(Rank(group.communicator(0)),
                    "rank 0: NCCL: ncclGetUniqueId: unhandled system error (the cable is out)");
  const auto [message, log] = message_of(NcclFault::Refused, std::chrono::seconds(5));
  CHECK(message == "rank 0: NCCL: all-reduce: unhandled system error (the cable is out)");
  CHECK(log.back() == "abort");
}

TEST_CASE("a group that was aborted takes no further call") {
  ThreadGroup group(1);
  fake_gpu() = {};
  Rank rank(group.communicator(0));
  std::vector<float> values(16);
  fake_gpu().fault = NcclFault::Refused;
  CHECK_THROWS_WITH(rank.comm.start_sum(device(values), rank.stream), Contains("cable"));
  fake_gpu().fault = NcclFault::None;
  CHECK_THROWS_WITH(rank.comm.start_sum(device(values), rank.stream),
                    "rank 0: NCCL: all-reduce: it was aborted before");
}

TEST_CASE("an error that comes later ends the wait") {
  const auto [message, log] = message_of(NcclFault::LostPeer, std::chrono::seconds(5));
  CHECK(message == "rank 0: NCCL: all-reduce: remote process exited (the cable is out)");
  CHECK(log.back() == "abort");
}

TEST_CASE("the wait for a device that never finishes ends after the timeout") {
  const auto [message, log] = message_of(NcclFault::Silence, std::chrono::milliseconds(50));
  CHECK_THAT(message, Contains("rank 0: NCCL: all-reduce of 16 floats did not end within 0.05 s"));
  CHECK(log.back() == "abort");
}

TEST_CASE("a call that stays in progress is given up after the timeout") {
  const auto [message, log] = message_of(NcclFault::NeverReady, std::chrono::milliseconds(50));
  CHECK_THAT(message, Contains("all-reduce did not complete within 0.05 s"));
  CHECK(log.back() == "abort");
}

TEST_CASE("the wait for ranks missing at the first call ends after the timeout") {
  ThreadGroup group(2, std::chrono::milliseconds(100));
  const auto work = [](Communicator& host) -> std::string {
    if (host.rank() == 1) {  // it has the id, and stops here
      nccl::UniqueId id = {};
      host.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
      return "";
    }
    fake_gpu() = {};
    try {
      Rank rank(host);
      return "came through";
    } catch (const Error& e) {
      return std::string(e.what()) + " " + fake_gpu().log.back();
    }
  };
  const auto results = test::on_ranks(group, 2, work);
  CHECK_THAT(results[0],
             Contains("ncclCommInitRankConfig did not complete within 0.1 s") && Contains("abort"));
}

TEST_CASE("a normal end finalizes NCCL, and one by an exception aborts it") {
  ThreadGroup group(1);
  fake_gpu() = {};
  { Rank rank(group.communicator(0)); }
  CHECK(fake_gpu().log == std::vector<std::string>{"finalize", "destroy"});
  fake_gpu() = {};
  try {
    Rank rank(group.communicator(0));
    throw Error(Errc::Unavailable, "something else");
  } catch (const Error&) {
  }
  CHECK(fake_gpu().log == std::vector<std::string>{"abort"});
}

#ifdef NCCL_VERSION_CODE
TEST_CASE("NCCL's own header agrees with dlflow's declarations") {
  CHECK(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
  CHECK(int(nccl::kSuccess) == int(ncclSuccess));
  CHECK(int(nccl::kInProgress) == int(ncclInProgress));
  CHECK(int(nccl::kFloat32) == int(ncclFloat32));
  CHECK(int(nccl::kSum) == int(ncclSum));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const nccl::Config ours;
  CHECK(ours.magic == theirs.magic);
  CHECK(ours.version == NCCL_VERSION(2, 14, 0));
  CHECK(ours.version <= theirs.version);
  CHECK(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
  CHECK(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
  CHECK(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
}
#endif
