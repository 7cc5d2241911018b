#pragma once

#include <vector>

namespace dlflow::runtime {

/// A network's input is value * scale + shift, per channel of the stored pixels; unused for tokens.
struct InputScale {
  std::vector<float> scale;  ///< (C)
  std::vector<float> shift;  ///< (C)
  bool operator==(const InputScale&) const = default;
};

}  // namespace dlflow::runtime
