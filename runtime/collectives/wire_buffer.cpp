#include "runtime/collectives/wire_buffer.h"

#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {

Values WireBuffer::copy_of_size(size_t count) {
  copies_.push_back(std::make_unique_for_overwrite<std::byte[]>(count * size_of(wire_)));
  return {copies_.back().get(), count, wire_};
}

Values WireBuffer::packed(const Values& values) {
  if (values.type == wire_) return values;
  const Values rounded = copy_of_size(values.count);
  convert(rounded, values);
  return rounded;
}

Values WireBuffer::room_for(const Values& values) {
  if (values.type == wire_) return values;
  arrivals_.push_back({values, copy_of_size(values.count)});
  return arrivals_.back().rounded;
}

void WireBuffer::unpack() {
  for (const Arrival& arrival : arrivals_) convert(arrival.values, arrival.rounded);
  arrivals_.clear();
  copies_.clear();
}

}  // namespace dlflow::runtime
