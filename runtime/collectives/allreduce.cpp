#include "runtime/collectives/allreduce.h"

#include "base/aligned_floats.h"
#include "runtime/collectives/direct_allreduce.h"
#include "runtime/collectives/ring_allreduce.h"
#include "runtime/collectives/shared_memory_allreduce.h"

namespace dlflow::runtime {
namespace {

/// The ring, each range as soon as it is started: messages need the thread that sends them.
class RingAllreduce : public Allreduce {
 public:
  RingAllreduce(Communicator& comm, size_t num_elements)
      : comm_(comm), num_elements_(num_elements), values_(make_aligned_floats(num_elements)) {}

  std::span<float> part(size_t) override { return {values_.get(), num_elements_}; }
  void start(size_t first, size_t count) override {
    ring_allreduce(comm_, values().subspan(first, count));
  }
  void finish() override {}

 private:
  Communicator& comm_;
  size_t num_elements_;
  AlignedFloats values_;
};

}  // namespace

std::unique_ptr<Allreduce> make_allreduce(Communicator& comm, size_t num_elements) {
  if (comm.node_size() == comm.size()) {
    return std::make_unique<SharedMemoryAllreduce>(comm, num_elements,
                                                   sum_in_rank_order(comm.size()));
  }
  return std::make_unique<RingAllreduce>(comm, num_elements);
}

std::unique_ptr<Allreduce> make_ordered_allreduce(Communicator& comm, size_t num_elements,
                                                  const SumOrder& order) {
  if (comm.node_size() == comm.size()) {
    return std::make_unique<SharedMemoryAllreduce>(comm, num_elements, order);
  }
  return std::make_unique<DirectAllreduce>(comm, num_elements, order);
}

}  // namespace dlflow::runtime
