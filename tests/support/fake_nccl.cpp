#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/gpu/nccl_abi.h"
#include "tests/support/fake_gpu.h"

/// The NCCL of libfake_gpu: its ranks are threads, and a "device pointer" is host memory. Like a
/// non-blocking communicator, it first answers "in progress".

namespace {

using namespace dlflow::runtime;
using dlflow::test::fake_gpu;
using dlflow::test::NcclFault;

constexpr auto kSystemError = nccl::Result(2);
constexpr auto kRemoteError = nccl::Result(6);

/// The shared state of ranks with one unique id.
struct Group {
  using Values = std::vector<std::vector<float>>;  // [rank]

  std::mutex mutex;
  std::condition_variable changed;
  size_t size = 0, joined = 0, came = 0, round = 0;
  Values sent, complete;

  /// Contributes `values` and waits until every rank has contributed. (A rank that is a round ahead
  /// cannot complete that round: the rank that is still reading the last one is missing.)
  Values exchange(size_t rank, std::vector<float> values) {
    std::unique_lock lock(mutex);
    sent.resize(size);
    sent[rank] = std::move(values);
    const size_t mine = round;
    if (++came == size) {
      came = 0;
      ++round;
      complete = sent;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return round != mine; });
    return complete;
  }
};

std::mutex groups_mutex;
std::map<std::string, std::shared_ptr<Group>> groups;

std::string stream_name(nccl::Stream stream) {
  return "s" + std::to_string(static_cast<const dlflow::test::FakeStream*>(stream)->number);
}

}  // namespace

namespace dlflow::runtime::nccl {
struct Comm {
  std::shared_ptr<Group> group;
  size_t rank = 0;
  Result later = kSuccess;
  bool busy = false;  // the next poll, like every second one, answers "in progress"
};
}  // namespace dlflow::runtime::nccl

namespace {

/// The common part of all collectives; `take` receives each rank's values.
template <typename Take>
nccl::Result collective(const char* name, const void* from, size_t count, nccl::Comm* comm,
                        nccl::Stream stream, Take take) {
  fake_gpu().log.push_back(std::string(name) + " " + std::to_string(count) + " " +
                           stream_name(stream));
  switch (fake_gpu().fault) {
    case NcclFault::Refused:
      return kSystemError;
    case NcclFault::LostPeer:
      comm->later = kRemoteError;
      return nccl::kSuccess;
    case NcclFault::Silence:
      static_cast<dlflow::test::FakeStream*>(stream)->silent = true;
      return nccl::kSuccess;
    case NcclFault::NeverReady:
      comm->later = nccl::kInProgress;
      return nccl::kInProgress;
    case NcclFault::None:
      break;
  }
  const float* values = static_cast<const float*>(from);
  take(comm->group->exchange(comm->rank, {values, values + count}));
  comm->busy = true;
  return nccl::kInProgress;
}

float sum_at(const std::vector<std::vector<float>>& all, size_t i) {
  float sum = 0;
  for (const auto& values : all) sum += values[i];
  return sum;
}

}  // namespace

extern "C" {

nccl::Result ncclGetVersion(int* version) {
  *version = fake_gpu().nccl_version;
  return nccl::kSuccess;
}

nccl::Result ncclGetUniqueId(nccl::UniqueId* id) {
  if (fake_gpu().fault == NcclFault::Refused) return kSystemError;
  static int made = 0;
  const std::lock_guard lock(groups_mutex);
  const std::string name = "group " + std::to_string(++made);
  std::strcpy(id->internal, name.c_str());
  groups[name] = std::make_shared<Group>();
  return nccl::kSuccess;
}

nccl::Result ncclCommInitRankConfig(nccl::Comm** comm, int size, nccl::UniqueId id, int rank,
                                    nccl::Config* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return nccl::Result(4);
  if (fake_gpu().slow) fake_gpu().slow("init");
  const std::lock_guard lock(groups_mutex);
  const auto found = groups.find(id.internal);
  if (found == groups.end()) return nccl::Result(4);
  const std::lock_guard group_lock(found->second->mutex);
  found->second->size = size_t(size);
  ++found->second->joined;
  *comm = new nccl::Comm{found->second, size_t(rank)};
  return nccl::kInProgress;
}

nccl::Result ncclCommGetAsyncError(nccl::Comm* comm, nccl::Result* result) {
  const std::lock_guard lock(comm->group->mutex);
  const bool joining = comm->group->joined < comm->group->size;
  *result = comm->busy || joining ? nccl::kInProgress : comm->later;
  comm->busy = !comm->busy;
  return nccl::kSuccess;
}

nccl::Result ncclCommFinalize(nccl::Comm* comm) {
  fake_gpu().log.emplace_back("finalize");
  comm->busy = true;
  return nccl::kInProgress;
}

nccl::Result ncclCommDestroy(nccl::Comm* comm) {
  fake_gpu().log.emplace_back("destroy");
  delete comm;
  return nccl::kSuccess;
}

nccl::Result ncclCommAbort(nccl::Comm* comm) {
  fake_gpu().log.emplace_back("abort");
  delete comm;
  return nccl::kSuccess;
}

const char* ncclGetErrorString(nccl::Result result) {
  return result == kRemoteError ? "remote process exited" : "unhandled system error";
}

const char* ncclGetLastError(nccl::Comm*) { return "the cable is out"; }

nccl::Result ncclAllReduce(const void* from, void* to, size_t count, nccl::DataType,
                           nccl::Operation, nccl::Comm* comm, nccl::Stream stream) {
  return collective("all-reduce", from, count, comm, stream, [&](const auto& all) {
    for (size_t i = 0; i < count; ++i) static_cast<float*>(to)[i] = sum_at(all, i);
  });
}

}  // extern "C"
