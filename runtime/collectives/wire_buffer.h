#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Numbers in the form that travels: the values themselves if they have the wire type, otherwise
/// rounded copies of fp32 numbers, which live until unpack().
class WireBuffer {
 public:
  explicit WireBuffer(DataType wire) : wire_(wire) {}

  /// Returns the data to send for `values`.
  Values packed(const Values& values);

  /// Returns the memory that receives the data for `values`.
  Values room_for(const Values& values);

  /// Converts the received data into the values given to room_for().
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
