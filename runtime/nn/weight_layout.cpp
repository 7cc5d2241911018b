#include "runtime/nn/weight_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/random.h"
#include "runtime/nn/draws.h"

namespace dlflow::runtime {
namespace {

size_t num_values(const Parameter& parameter) { return size_t(num_numbers(parameter.shape)); }

/// Describes oneDNN's blocked formats: padded dimensions, their strides, and the inner blocks,
/// outermost first. Other kinds (not used for trained weights) differ by their size.
std::string describe(const dnnl::memory::desc& format) {
  const MemoryFormat f = format_of(format);
  std::string text = std::to_string(f.kind) + " " + std::to_string(format.get_size());
  for (size_t i = 0; i < f.strides.size(); ++i) {
    text += " " + std::to_string(f.padded[i]) + ":" + std::to_string(f.strides[i]);
  }
  for (size_t i = 0; i < f.block_sizes.size(); ++i) {
    text += " " + std::to_string(f.block_sizes[i]) + "x" + std::to_string(f.block_dimensions[i]);
  }
  return text;
}

/// A standard normal number (Box and Muller, Ann. Math. Statist. 29, 1958).
float normal(RandomStream& random) {
  const double radius = std::sqrt(-2 * std::log(1 - double(random.uniform())));
  return float(radius * std::cos(2 * std::numbers::pi * double(random.uniform())));
}

}  // namespace

dnnl::memory::desc plain_order(const dnnl::memory::dims& shape) {
  dnnl::memory::dims strides(shape.size(), 1);
  for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  return {shape, dnnl::memory::data_type::f32, strides};
}

std::string WeightLayout::formats() const {
  std::string text;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    text += parameters_[i].name + " " + std::to_string(parameters_[i].offset) + " " +
            describe(formats_[i]) + "\n";
  }
  return text;
}

std::vector<float> WeightLayout::to_plain(std::span<const float> buffer, size_t index) const {
  std::vector<float> values(num_values(parameters_[index]));
  float* slot = const_cast<float*>(buffer.data() + parameters_[index].offset);
  dnnl::memory from(formats_[index], engine_, DNNL_MEMORY_NONE);
  from.set_data_handle(slot);
  dnnl::memory to(plain_order(dimensions(formats_[index])), engine_, values.data());
  dnnl::stream stream(engine_);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return values;
}

std::span<float> WeightLayout::make_plain(std::span<float> buffer, size_t index) const {
  const Parameter& parameter = parameters_[index];
  const std::span<float> slot = buffer.subspan(parameter.offset, num_values(parameter));
  if (formats_[index] != plain_order(dimensions(formats_[index]))) {
    std::ranges::copy(to_plain(buffer, index), slot.begin());
  }
  return slot;
}

void WeightLayout::from_plain(std::span<const float> values, std::span<float> buffer,
                              size_t index) const {
  const Parameter& parameter = parameters_[index];
  if (values.size() != num_values(parameter)) {
    throw Error(Errc::InvalidInput, "'" + parameter.name + "' has " +
                                        std::to_string(num_values(parameter)) + " numbers, not " +
                                        std::to_string(values.size()));
  }
  float* slot = buffer.data() + parameter.offset;
  std::memset(slot, 0, parameter.size * sizeof(float));
  dnnl::memory from(plain_order(dimensions(formats_[index])), engine_,
                    const_cast<float*>(values.data()));
  dnnl::memory to(formats_[index], engine_, slot);
  dnnl::stream stream(engine_);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
}

void initialise(const WeightLayout& layout, uint64_t seed, std::span<float> weights) {
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    std::vector<float> values(num_values(parameter), parameter.initial);
    const uint64_t key = name_hash(parameter.name);
    RandomStream random(seed, RandomUse::Initialization, uint32_t(key), uint32_t(key >> 32));
    if (parameter.fan_in > 0) {
      const double usual = 1 / std::sqrt(double(parameter.fan_in));
      const double bound = parameter.bound > 0 ? double(parameter.bound) : usual;
      for (float& value : values) value = float(bound * (2 * double(random.uniform()) - 1));
    }
    if (parameter.deviation > 0) {
      for (float& value : values) value = parameter.deviation * normal(random);
    }
    layout.from_plain(values, weights, i);
  }
}

void update_statistics(std::span<const float> of_batch, std::span<float> running) {
  for (size_t i = 0; i < running.size(); ++i) {
    running[i] += kStatisticsMomentum * (of_batch[i] - running[i]);
  }
}

}  // namespace dlflow::runtime
