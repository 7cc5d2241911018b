#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Numbers as they travel: themselves if they are of the wire type, else fp32 ones as rounded
/// copies, which live until unpack().
class WireBuffer {
 public:
  explicit WireBuffer(DataType wire) : wire_(wire) {}

  /// What to send for `values`.
  Values packed(const Values& values);

  /// Where to receive what is meant for `values`.
  Values room_for(const Values& values);

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
