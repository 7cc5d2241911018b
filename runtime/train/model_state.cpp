#include "runtime/train/model_state.h"

#include <algorithm>

#include "base/aligned_floats.h"

namespace dlflow::runtime {

ModelState::ModelState(Communicator& comm, const WeightLayout& layout, size_t report_floats,
                       const SgdOptions& options, bool shared)
    : options_(options),
      trainable_size_(layout.trainable_size()),
      weights_size_(layout.size()),
      is_filled_here_(!shared || comm.node_rank() == 0) {
  const size_t sharers = shared ? size_t(comm.node_size()) : 1;
  const size_t place = shared ? size_t(comm.node_rank()) : 0;
  const size_t values = whole_lines(weights_size_ + report_floats);
  const size_t velocity = whole_lines(trainable_size_);
  const size_t all = values + velocity + sharers * kLineElements;
  std::span<float> memory;
  if (sharers > 1) {
    const auto parts = comm.allocate_shared(is_filled_here_ ? all * sizeof(float) : 0);
    memory = {reinterpret_cast<float*>(parts[0]), all};
  } else {
    own_ = HugeBuffer(all);  // huge pages, which shared memory has not
    memory = own_.floats();
  }
  values_ = memory.first(weights_size_ + report_floats);
  velocity_ = memory.subspan(values, trainable_size_);
  broken_ = memory.last(sharers * kLineElements);
  broken_here_ = &broken_[place * kLineElements];
}

bool ModelState::finite() const {
  return std::ranges::all_of(broken_, [](float broken) { return broken == 0; });
}

void ModelState::update(size_t first, std::span<const float> sums, float learning_rate) {
  struct Piece {
    size_t offset;
    std::span<const float> sums;
  };
  const auto piece = [&](size_t begin, size_t end) -> Piece {
    const size_t from = std::clamp(begin, first, first + sums.size());
    const size_t to = std::clamp(end, first, first + sums.size());
    return {from, sums.subspan(from - first, to - from)};
  };
  const auto values = [&](const Piece& p) { return values_.subspan(p.offset, p.sums.size()); };

  const Piece trainable = piece(0, trainable_size_);
  if (!trainable.sums.empty()) {
    const auto velocity = velocity_.subspan(trainable.offset, trainable.sums.size());
    if (!sgd_step(options_, learning_rate, trainable.sums, velocity, values(trainable))) {
      *broken_here_ = 1;
    }
  }
  const Piece statistics = piece(trainable_size_, weights_size_);
  if (!statistics.sums.empty()) update_statistics(statistics.sums, values(statistics));
  const Piece report = piece(weights_size_, values_.size());
  std::ranges::copy(report.sums, values(report).begin());
}

}  // namespace dlflow::runtime
