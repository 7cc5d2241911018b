#include "runtime/train/compression_state.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <functional>
#include <string>

namespace dlflow::runtime {
namespace {

constexpr const char* kFile = "compression";
constexpr const char* kResidual = "residual";
constexpr const char* kVelocity = "velocity";
constexpr const char* kRight = "right";  // factors of PowerSGD

/// Returns the place of each rank.
std::vector<size_t> places_of(const Communicator& comm, const Compression& how) {
  std::vector<size_t> places;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const bool by_node = how.aggregation == Aggregation::Hierarchical;
    places.push_back(size_t(by_node ? comm.nodes()[size_t(rank)] : rank));
  }
  return places;
}

size_t num_places(const std::vector<size_t>& places) {
  return *std::ranges::max_element(places) + 1;
}

/// Returns the part of `values` that this rank keeps. Before the first step, that is all of it, as
/// loaded, which is the same on all ranks of a place.
std::vector<float> own_part(std::span<const float> values, const CompressedSum& compressed) {
  if (!compressed.has_begun()) return {values.begin(), values.end()};
  std::vector<float> own(values.size());
  for (const Piece& range : compressed.ranges()) {
    const auto part = values.subspan(range.first, range.count);
    std::ranges::copy(part, own.begin() + long(range.first));
  }
  return own;
}

/// Merges values of two ranks of a place: their nonzero parts are disjoint, or all are equal.
void unite(std::vector<float>& into, const std::vector<float>& values) {
  for (size_t i = 0; i < into.size(); ++i) {
    into[i] =
        std::bit_cast<float>(std::bit_cast<uint32_t>(into[i]) | std::bit_cast<uint32_t>(values[i]));
  }
}

/// Returns, on rank 0, the merged values of each place. Collective.
std::vector<std::vector<float>> gather(Communicator& comm, std::span<const float> values,
                                       const CompressedSum& compressed) {
  const std::vector<size_t> places = places_of(comm, compressed.how());
  std::vector<float> part = own_part(values, compressed);
  if (comm.rank() != 0) {
    comm.send(std::as_bytes(std::span(part)), 0);
    return {};
  }
  std::vector<std::vector<float>> all(num_places(places), std::vector<float>(values.size()));
  unite(all[places[0]], part);
  for (int rank = 1; rank < comm.size(); ++rank) {
    comm.receive(std::as_writable_bytes(std::span(part)), rank);
    unite(all[places[size_t(rank)]], part);
  }
  return all;
}

/// Returns "residual.12." for place 12.
std::string prefix(const char* what, size_t place) {
  return std::string(what) + "." + std::to_string(place) + ".";
}

/// Returns the place in a name that begins with "WHAT.PLACE.".
std::optional<size_t> place_in(const std::string& name, const std::string& what) {
  if (!name.starts_with(what + ".")) return {};
  size_t place = 0;
  const auto parsed =
      std::from_chars(name.data() + what.size() + 1, name.data() + name.size(), place);
  return parsed.ec == std::errc() ? std::optional(place) : std::nullopt;
}

/// Adds to `values` the tensors named `what` of those saved places that map to place `mine` of
/// `places`.
void load(const Safetensors& file, const WeightLayout& layout, const char* what, size_t mine,
          size_t places, std::span<float> values) {
  for (size_t index = 0; index < layout.num_trainable(); ++index) {
    const std::string& name = layout.parameters()[index].name;
    for (const TensorView& tensor : file.tensors()) {
      const auto place = place_in(tensor.name, what);
      if (!place || *place % places != mine || tensor.name != prefix(what, *place) + name) continue;
      std::vector<float> plain(tensor.bytes.size() / sizeof(float));
      copy_elements<float>(tensor, plain);
      std::vector<float> loaded(layout.size());
      layout.from_plain(plain, loaded, index);
      const size_t count = std::min(loaded.size(), values.size());  // without frozen parameters
      for (size_t i = 0; i < count; ++i) values[i] += loaded[i];
    }
  }
}

}  // namespace

CompressionState::CompressionState(Communicator& comm, const WeightLayout& layout,
                                   CompressedSum* compressed) {
  if (compressed == nullptr) return;
  const Activity activity(comm, "saves a checkpoint");
  for (const auto& [what, values] : {std::pair(kResidual, compressed->residual()),
                                     std::pair(kVelocity, compressed->velocity())}) {
    if (values.empty()) continue;
    const auto places = gather(comm, values, *compressed);
    for (size_t place = 0; place < places.size(); ++place) {
      add(prefix(what, place), layout, places[place]);
    }
  }
  if (comm.rank() != 0) return;
  const std::span<const float> right = compressed->right_factors();
  storage_.emplace_back(right.begin(), right.end());
  tensors_[kFile].push_back(
      tensor_view<float>(kRight, {right.size()}, std::span<const float>(storage_.back())));
}

void CompressionState::add(const std::string& prefix, const WeightLayout& layout,
                           std::span<const float> values) {
  for (size_t i = 0; i < layout.num_trainable(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    storage_.push_back(layout.to_plain(values, i));
    const bool is_empty = std::ranges::all_of(storage_.back(), [](float v) { return v == 0; });
    if (is_empty) {
      storage_.pop_back();
      continue;
    }
    const std::vector<uint64_t> shape(parameter.shape.begin(), parameter.shape.end());
    tensors_[kFile].push_back(tensor_view<float>(prefix + parameter.name, shape,
                                                 std::span<const float>(storage_.back())));
  }
}

void load_compression(const Communicator& comm, const WeightLayout& layout,
                      const Checkpoint& checkpoint, CompressedSum* compressed) {
  const auto file = checkpoint.further.find(kFile);
  if (compressed == nullptr || file == checkpoint.further.end()) return;
  const std::vector<size_t> places = places_of(comm, compressed->how());
  const size_t mine = places[size_t(comm.rank())];
  for (const auto& [what, values] : {std::pair(kResidual, compressed->residual()),
                                     std::pair(kVelocity, compressed->velocity())}) {
    if (!values.empty()) load(file->second, layout, what, mine, num_places(places), values);
  }
  const TensorView& right = file->second.at(kRight);
  const std::span<float> factors = compressed->right_factors();
  if (right.bytes.size() == factors.size_bytes()) copy_elements<float>(right, factors);
}

}  // namespace dlflow::runtime
