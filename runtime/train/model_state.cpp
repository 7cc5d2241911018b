#include "runtime/train/model_state.h"

#include <algorithm>

#include "base/aligned_floats.h"
#include "runtime/optim/average.h"

namespace dlflow::runtime {
namespace {

/// Returns the trainable parameters, padding included.
std::vector<LayerSlot> layer_slots(const WeightLayout& layout, const UpdateSettings& settings) {
  std::vector<LayerSlot> slots;
  for (size_t i = 0; i < layout.num_trainable(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    LayerSlot& slot = slots.emplace_back();
    slot = {parameter.offset, whole_lines(parameter.size), parameter.shape.size() == 1};
    if (const ParameterGroup* group = group_of(settings.groups, parameter.name)) {
      slot.rate = group->lr_multiplier;
      slot.weight_decay = group->weight_decay;
    }
  }
  return slots;
}

/// The suffix of the trained weights in a checkpoint whose weights are their running mean.
constexpr const char* kTrained = ".trained";

StateSharing sharing_of(const UpdateSettings& settings, bool shared) {
  if (shared) return StateSharing::OneCopy;
  return settings.shard_optimizer ? StateSharing::Shards : StateSharing::Replicas;
}

}  // namespace

ModelState::ModelState(Communicator& comm, const WeightLayout& layout, size_t report_floats,
                       const UpdateSettings& settings, bool shared)
    : comm_(comm),
      layout_(layout),
      optimizer_(make_optimizer(settings.optimizer)),
      buffer_names_(optimizer_->state_names()),
      is_filled_here_(!shared || comm.node_rank() == 0),
      layers_(layer_slots(layout, settings)),
      decays_vectors_(settings.decays_vectors || settings.optimizer.weight_decay == 0),
      all_alike_(decays_vectors_ && settings.groups.empty()),
      sharing_(sharing_of(settings, shared)),
      ema_(settings.ema) {
  if (settings.clip_norm || optimizer_->layer_wise() || sharing_ == StateSharing::Shards) {
    whole_ = std::make_unique<WholeUpdate>(comm, *optimizer_, layers_, settings, sharing_);
  }
  const auto extent =
      whole_ ? whole_->extent_of(comm.rank()) : WholeUpdate::Extent{0, layout.trainable_size()};
  const size_t sharers = shared ? size_t(comm.node_size()) : 1;
  const size_t place = shared ? size_t(comm.node_rank()) : 0;
  const size_t values = whole_lines(layout.size() + report_floats);
  const size_t gradients = whole_ ? whole_lines(layout.trainable_size()) : 0;
  const size_t buffer = whole_lines(extent.count);
  const size_t averaged = ema_ > 0 ? whole_lines(layout.size()) : 0;
  const size_t flags = sharers * kLineElements;
  std::span<float> memory =
      allocate(values + averaged + gradients + buffer_names_.size() * buffer + flags, sharers > 1);
  const auto take_from_memory = [&](size_t floats) {
    const std::span<float> first = memory.first(floats);
    memory = memory.subspan(floats);
    return first;
  };
  values_ = take_from_memory(values).first(layout.size() + report_floats);
  averaged_ = take_from_memory(averaged);
  if (ema_ > 0) averaged_ = averaged_.first(layout.size());
  gradients_ = take_from_memory(gradients);
  trained_.weights = values_;
  trained_.state_begin = extent.first;
  for (size_t i = 0; i < buffer_names_.size(); ++i) {
    trained_.state.push_back(take_from_memory(buffer).first(extent.count));
  }
  broken_ = take_from_memory(flags);
  broken_here_ = &broken_[place * kLineElements];
}

std::span<float> ModelState::allocate(size_t floats, bool shared) {
  if (!shared) {
    own_ = HugeBuffer(floats);  // huge pages, which shared memory lacks
    return own_.floats();
  }
  const auto parts = comm_.allocate_shared(is_filled_here_ ? floats * sizeof(float) : 0);
  return {reinterpret_cast<float*>(parts[0]), floats};
}

void ModelState::begin() {
  std::ranges::copy(weights().first(averaged_.size()), averaged_.begin());
}

bool ModelState::finite() const {
  return std::ranges::all_of(broken_, [](float broken) { return broken == 0; });
}

ModelState::OptimizerContent ModelState::optimizer_content() {
  OptimizerContent content;
  for (size_t i = 0; i < buffer_names_.size(); ++i) {
    std::span<const float> whole = trained_.state[i];
    if (sharing_ == StateSharing::Shards) {
      content.gathered.push_back(gather_on_rank_0(trained_.state[i]));
      whole = content.gathered.back().floats();
    }
    content.buffers.push_back({buffer_names_[i], whole});
  }
  if (ema_ == 0) return content;
  std::span<const float> trained = weights();
  if (sharing_ == StateSharing::Shards) {
    HugeBuffer& copy = content.gathered.emplace_back(comm_.rank() == 0 ? trained.size() : 0);
    if (comm_.rank() == 0) std::ranges::copy(trained, copy.floats().begin());
    trained = copy.floats();
  }
  content.buffers.push_back({kTrained, trained});
  return content;
}

HugeBuffer ModelState::gather_on_rank_0(std::span<const float> shard) {
  if (comm_.rank() != 0) {
    comm_.send(std::as_bytes(shard), 0);
    return HugeBuffer();
  }
  HugeBuffer whole(layout_.trainable_size());
  std::ranges::copy(shard, whole.floats().begin());
  for (int rank = 1; rank < comm_.size(); ++rank) {
    const WholeUpdate::Extent theirs = whole_->extent_of(rank);
    comm_.receive(std::as_writable_bytes(whole.floats().subspan(theirs.first, theirs.count)), rank);
  }
  return whole;
}

size_t ModelState::optimizer_bytes() const {
  size_t floats = 0;
  for (const std::span<float> buffer : trained_.state) floats += buffer.size();
  const bool one_copy = sharing_ == StateSharing::OneCopy;
  return floats * sizeof(float) / (one_copy ? size_t(comm_.node_size()) : 1);
}

void ModelState::restore(const Checkpoint& checkpoint, uint64_t updates) {
  updates_ = updates;
  if (!is_filled_here_) return;
  if (ema_ > 0) {
    load_weights(checkpoint, layout_, averaged_);
    load_optimizer_buffer(checkpoint, layout_, kTrained, weights());
  } else {
    load_weights(checkpoint, layout_, weights());
  }
  HugeBuffer whole(layout_.trainable_size());
  for (size_t i = 0; i < buffer_names_.size(); ++i) {
    load_optimizer_buffer(checkpoint, layout_, buffer_names_[i], whole.floats());
    const std::span<float> own = trained_.state[i];
    std::ranges::copy(whole.floats().subspan(trained_.state_begin, own.size()), own.begin());
  }
}

void ModelState::begin_update(double learning_rate) {
  optimizer_->begin_step(learning_rate, ++updates_);
}

void ModelState::finish_update() {
  DLFLOW_CHECK(whole_);
  if (!whole_->apply(gradients_, trained_)) *broken_here_ = 1;
  const bool part = sharing_ == StateSharing::OneCopy;  // the other ranks average theirs
  const auto mine =
      part ? whole_->updated_extent() : WholeUpdate::Extent{0, layout_.trainable_size()};
  average(mine.first, mine.count);
  // Before any rank reads the weights or checks whether they are finite.
  if (sharing_ == StateSharing::OneCopy) comm_.barrier();
}

void ModelState::take_gradients(size_t first, std::span<const float> sums) {
  if (whole_) {
    std::ranges::copy(sums, gradients_.begin() + long(first));
  } else if (all_alike_) {
    update(first, sums, {});
  } else {
    update_layer_by_layer(first, sums);
  }
}

void ModelState::update(size_t first, std::span<const float> gradients, const LayerTerms& terms) {
  if (!optimizer_->update(gradients, trained_.part(first, gradients.size()), terms)) {
    *broken_here_ = 1;
  }
}

void ModelState::update_layer_by_layer(size_t first, std::span<const float> gradients) {
  const size_t end = first + gradients.size();
  auto layer = std::ranges::upper_bound(layers_, first, {}, &LayerSlot::first) - 1;
  for (; layer != layers_.end() && layer->first < end; ++layer) {
    const size_t from = std::max(first, layer->first);
    const size_t to = std::min(end, layer->first + layer->count);
    update(from, gradients.subspan(from - first, to - from), layer->terms(decays_vectors_));
  }
}

/// The mean begins with the weights after the first update, as PyTorch's AveragedModel does.
void ModelState::average(size_t first, size_t count) {
  if (ema_ == 0 || count == 0) return;
  const std::span<const float> now = values_.subspan(first, count);
  const std::span<float> mean = averaged_.subspan(first, count);
  if (updates_ == 1) {
    std::ranges::copy(now, mean.begin());
  } else {
    move_average(now, float(1 - ema_), mean);
  }
}

void ModelState::take(size_t first, std::span<const float> sums) {
  struct Slice {
    size_t offset;
    std::span<const float> sums;
  };
  const auto slice = [&](size_t begin, size_t end) -> Slice {
    const size_t from = std::clamp(begin, first, first + sums.size());
    const size_t to = std::clamp(end, first, first + sums.size());
    return {from, sums.subspan(from - first, to - from)};
  };
  const auto values = [&](const Slice& s) { return values_.subspan(s.offset, s.sums.size()); };

  const Slice trainable = slice(0, layout_.trainable_size());
  if (!trainable.sums.empty()) take_gradients(trainable.offset, trainable.sums);
  if (!whole_) average(trainable.offset, trainable.sums.size());
  const Slice statistics = slice(layout_.trainable_size(), layout_.exchanged_size());
  if (!statistics.sums.empty()) update_statistics(statistics.sums, values(statistics));
  average(statistics.offset, statistics.sums.size());
  const size_t frozen = layout_.size() - layout_.exchanged_size();  // lies before the report
  const Slice report = slice(layout_.exchanged_size(), values_.size() - frozen);
  std::ranges::copy(report.sums, values_.begin() + long(report.offset + frozen));
}

}  // namespace dlflow::runtime
