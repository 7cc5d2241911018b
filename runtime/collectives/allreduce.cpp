#include "runtime/collectives/allreduce.h"

#include <new>

#include "runtime/collectives/ring_allreduce.h"
#include "runtime/collectives/shared_memory_allreduce.h"

namespace dlflow::runtime {
namespace {

struct AlignedFree {
  void operator()(float* values) const { ::operator delete[](values, std::align_val_t(64)); }
};

/// The ring, each range as soon as it is started: messages need the thread that sends them.
class RingAllreduce : public Allreduce {
 public:
  RingAllreduce(Communicator& comm, size_t num_elements, Reduction reduction)
      : comm_(comm),
        reduction_(reduction),
        num_elements_(num_elements),
        values_(new (std::align_val_t(64)) float[num_elements]()) {}

  std::span<float> values() override { return {values_.get(), num_elements_}; }
  void start(size_t first, size_t count) override {
    ring_allreduce(comm_, values().subspan(first, count), reduction_);
  }
  void finish() override {}

 private:
  Communicator& comm_;
  Reduction reduction_;
  size_t num_elements_;
  std::unique_ptr<float[], AlignedFree> values_;
};

}  // namespace

std::unique_ptr<Allreduce> make_allreduce(Communicator& comm, size_t num_elements,
                                          Reduction reduction) {
  if (comm.node_size() == comm.size()) {
    return std::make_unique<SharedMemoryAllreduce>(comm, num_elements, reduction);
  }
  return std::make_unique<RingAllreduce>(comm, num_elements, reduction);
}

}  // namespace dlflow::runtime
