#include "runtime/train/whole_update.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/collectives/all_gather.h"

namespace dlflow::runtime {
namespace {

/// Returns the extent of adjacent blocks.
WholeUpdate::Extent extent(std::span<const Block> blocks) {
  if (blocks.empty()) return {};
  return {blocks.front().first, blocks.back().first + blocks.back().count - blocks.front().first};
}

}  // namespace

LayerNorms::LayerNorms(Communicator& comm, std::span<const LayerSlot> layers)
    : comm_(comm),
      num_layers_(layers.size()),
      blocks_(make_blocks(layers)),
      begins_(share_out(blocks_, size_t(comm.size()))) {}

std::span<const Block> LayerNorms::blocks_of(int rank) const {
  const size_t begin = begins_[size_t(rank)];
  return std::span(blocks_).subspan(begin, begins_[size_t(rank) + 1] - begin);
}

std::vector<std::vector<double>> LayerNorms::of(
    std::initializer_list<std::span<const float>> buffers) const {
  std::vector<double> sums(blocks_.size() * buffers.size());  // the buffers of a block side by side
  auto sum = sums.begin() + long(begins_[size_t(comm_.rank())] * buffers.size());
  for (const Block& block : blocks_of(comm_.rank())) {
    for (const auto& buffer : buffers) {
      *sum++ = sum_of_squares(buffer.subspan(block.first, block.count));
    }
  }
  std::vector<size_t> sizes;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    sizes.push_back(blocks_of(rank).size() * buffers.size() * sizeof(double));
  }
  comm_.submit({"all-gather", "norms of layers", sums.size(), "fp64"});
  run(comm_, all_gather(Link(comm_), std::as_writable_bytes(std::span(sums)), std::move(sizes)));

  std::vector norms(buffers.size(), std::vector<double>(num_layers_));
  sum = sums.begin();
  for (const Block& block : blocks_) {
    for (std::vector<double>& of_layers : norms) of_layers[block.layer] += *sum++;
  }
  for (std::vector<double>& of_layers : norms) {
    for (double& norm : of_layers) norm = std::sqrt(norm);
  }
  return norms;
}

Elements TrainedBuffers::part(size_t first, size_t count) const {
  Elements elements;
  for (size_t i = 0; i < state.size(); ++i) {
    elements.state[i] = state[i].subspan(first - state_begin, count);
  }
  elements.weights = weights.subspan(first, count);
  return elements;
}

WholeUpdate::WholeUpdate(Communicator& comm, Optimizer& optimizer, std::vector<LayerSlot> layers,
                         const UpdateSettings& settings, StateSharing sharing)
    : comm_(comm),
      optimizer_(optimizer),
      layers_(std::move(layers)),
      clip_norm_(settings.clip_norm),
      decays_vectors_(settings.decays_vectors),
      sharing_(sharing),
      norms_(comm, layers_),
      trust_(layers_.size(), 1.0) {}

std::span<const Block> WholeUpdate::updated() const {
  if (sharing_ == StateSharing::Replicas) return norms_.blocks();
  return norms_.blocks_of(comm_.rank());
}

WholeUpdate::Extent WholeUpdate::extent_of(int rank) const {
  return extent(sharing_ == StateSharing::Shards ? norms_.blocks_of(rank) : norms_.blocks());
}

WholeUpdate::Extent WholeUpdate::updated_extent() const { return extent(updated()); }

LayerTerms WholeUpdate::terms_of(const Block& block) const {
  LayerTerms terms = layers_[block.layer].terms(decays_vectors_);
  terms.trust *= trust_[block.layer];
  return terms;
}

bool WholeUpdate::apply(std::span<float> gradients, const TrainedBuffers& trained) {
  if (clip_norm_) clip(gradients);
  if (optimizer_.layer_wise()) find_trust(gradients, trained);
  bool finite = true;
  for (const Block& block : updated()) {
    const std::span<float> part = gradients.subspan(block.first, block.count);
    const Elements elements = trained.part(block.first, block.count);
    finite = optimizer_.update(part, elements, terms_of(block)) && finite;
  }
  return sharing_ == StateSharing::Shards ? gather_weights(trained.weights, finite) : finite;
}

void WholeUpdate::clip(std::span<float> gradients) {
  double squares = 0;
  const auto norms = norms_.of({gradients});
  for (const double norm : norms[0]) squares += norm * norm;
  const double factor = *clip_norm_ / (std::sqrt(squares) + 1e-6);
  if (factor >= 1) return;  // false for NaN, which makes all weights NaN
  for (const Block& block : updated()) {
    for (float& g : gradients.subspan(block.first, block.count)) g *= float(factor);
  }
}

void WholeUpdate::find_trust(std::span<float> gradients, const TrainedBuffers& trained) {
  for (const Block& block : updated()) {
    optimizer_.direct(gradients.subspan(block.first, block.count),
                      trained.part(block.first, block.count), terms_of(block));
  }
  const auto norms = norms_.of({trained.weights, gradients});
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].is_vector) continue;
    trust_[i] = optimizer_.trust_ratio(norms[0][i], norms[1][i], layers_[i].terms(decays_vectors_));
  }
}

/// A rank with a weight that is not finite sets its first weight to NaN. The all-gather thus tells
/// the other ranks for free, and the last such weight, which is reported, stays the same.
bool WholeUpdate::gather_weights(std::span<float> weights, bool finite) {
  std::vector<size_t> bytes, firsts;
  size_t elements = 0;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Extent extent = extent_of(rank);
    bytes.push_back(extent.count * sizeof(float));
    if (extent.count > 0) firsts.push_back(extent.first);
    elements += extent.count;
  }
  if (!finite) weights[extent_of(comm_.rank()).first] = std::numeric_limits<float>::quiet_NaN();
  comm_.submit({"all-gather", "weights", elements, "fp32"});
  run(comm_, all_gather(Link(comm_), std::as_writable_bytes(weights.first(elements)), bytes));
  return std::ranges::all_of(firsts, [&](size_t first) { return std::isfinite(weights[first]); });
}

}  // namespace dlflow::runtime
