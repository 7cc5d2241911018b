#pragma once

#include <cstdint>
#include <vector>

namespace dlflow::runtime {

/// The shares that each of `size` numbers has in each of `places` means, (size, places), as
/// `adaptive_avg_pool` takes them along one direction of a map. ONNX has no operation for it, but a
/// product with these.
std::vector<float> adaptive_shares(int64_t size, int64_t places);

}  // namespace dlflow::runtime
