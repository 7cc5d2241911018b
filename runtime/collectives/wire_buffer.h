#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// fp32 numbers as they travel: themselves if the wire type is Float32, else rounded copies, which
/// live until unpack().
class WireBuffer {
 public:
  explicit WireBuffer(DataType wire) : wire_(wire) {}

  /// What to send for `values`.
  Values packed(std::span<float> values);

  /// Where to receive what is meant for `values`.
  Values room_for(std::span<float> values);

  /// What has been received goes where it is meant.
  void unpack();

 private:
  Values copy_of_size(size_t count);

  struct Arrival {
    Values values, rounded;
  };
  DataType wire_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;
  std::vector<Arrival> arrivals_;
};

}  // namespace dlflow::runtime
