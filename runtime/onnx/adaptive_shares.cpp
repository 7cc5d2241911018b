#include "runtime/onnx/adaptive_shares.h"

#include <cstddef>

namespace dlflow::runtime {

std::vector<float> adaptive_shares(int64_t size, int64_t places) {
  std::vector<float> all(size_t(size * places), 0);
  for (int64_t place = 0; place < places; ++place) {
    const int64_t begin = place * size / places;
    const int64_t end = ((place + 1) * size + places - 1) / places;
    for (int64_t i = begin; i < end; ++i) {
      all[size_t(i * places + place)] = 1 / float(end - begin);
    }
  }
  return all;
}

}  // namespace dlflow::runtime
