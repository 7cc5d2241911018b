#include "runtime/nn/product_shape.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace dlflow::runtime {
namespace {

using dnnl::memory;

constexpr int64_t kBlock = OuterProducts::kRows;

const dnnl_blocking_desc_t& blocking(const memory::desc& desc) {
  return desc.data.format_desc.blocking;
}

/// In blocks, without padding.
bool is_dense(const memory::desc& desc) {
  const auto& d = desc.data;
  return d.format_kind == dnnl_blocked && d.data_type == dnnl_f32 &&
         std::equal(d.dims, d.dims + d.ndims, d.padded_dims);
}

/// Whether the innermost blocks are these, of dimension and size.
bool has_blocks(const memory::desc& desc,
                const std::vector<std::pair<int64_t, int64_t>>& expected) {
  const dnnl_blocking_desc_t& b = blocking(desc);
  std::vector<std::pair<int64_t, int64_t>> blocks;
  for (int i = 0; i < b.inner_nblks; ++i) blocks.emplace_back(b.inner_idxs[i], b.inner_blks[i]);
  return blocks == expected;
}

/// Whether one step along each dimension but the first is `factor` times as far in `a` as in `b`.
bool has_strides(const memory::desc& a, const memory::desc& b, int64_t factor) {
  const auto& of_a = blocking(a).strides;
  const auto& of_b = blocking(b).strides;
  return std::equal(of_a + 1, of_a + a.data.ndims, of_b + 1,
                    [&](int64_t x, int64_t y) { return x == y * factor; });
}

int64_t inputs_of(const memory::desc& x) {
  int64_t inputs = 1;
  for (int d = 1; d < x.data.ndims; ++d) inputs *= x.data.dims[d];
  return inputs;
}

}  // namespace

std::optional<ProductShape> product_shape(size_t parameter, const memory::desc& weight,
                                          const memory::desc& x) {
  if (!is_dense(weight) || !is_dense(x)) return {};
  const bool blocks = has_blocks(x, {{1, kBlock}});
  const bool plain = has_blocks(x, {}) && x.data.ndims == 2 && blocking(x).strides[1] == 1;
  if (!blocks && !plain) return {};

  const int64_t inputs = inputs_of(x), outputs = weight.data.dims[0];
  const dnnl_blocking_desc_t& b = blocking(weight);
  const int64_t group = b.inner_nblks == 2 ? b.inner_blks[1] : 0;
  const bool fits = group > 0 && has_blocks(weight, {{1, kBlock}, {0, group}}) &&
                    has_strides(weight, x, blocks ? group : group * kBlock) &&
                    (outputs == group || b.strides[0] == inputs * group) &&
                    group % OuterProducts::kColumns == 0 && inputs % kBlock == 0;
  return fits ? std::optional(ProductShape{parameter, inputs, outputs, group}) : std::nullopt;
}

}  // namespace dlflow::runtime
