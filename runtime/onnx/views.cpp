#include "runtime/onnx/views.h"

#include <algorithm>

#include "runtime/onnx/graph_values.h"

namespace dlflow::runtime {
namespace {

[[noreturn]] void refuse_shape() { refuse("dlflow has no layer that gives this shape"); }

/// Takes `size` from the front of `factors`.
Dimension take(std::vector<Factor>& factors, int64_t size) {
  Dimension taken;
  while (size > 1) {
    if (factors.empty()) refuse_shape();
    Factor& first = factors.front();
    if (size % first.size == 0) {
      size /= first.size;
      taken.push_back(first);
      factors.erase(factors.begin());
    } else if (first.size != kBatch && first.size % size == 0) {
      first.size /= size;
      taken.push_back({size, first.stride * first.size});
      size = 1;
    } else {
      refuse_shape();
    }
  }
  return simplified(taken);
}

/// Every size known: of copies, and of the one that is to be found.
std::vector<int64_t> resolved(const View& view, std::vector<int64_t> sizes) {
  int64_t all = 1, known = 1;
  for (const Dimension& dimension : view.dimensions) all = checked_product(all, size_of(dimension));
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 && i < view.dimensions.size()) sizes[i] = size_of(view.dimensions[i]);
    if (sizes[i] < 1 && sizes[i] != -1) refuse_shape();
    if (sizes[i] > 0) known = checked_product(known, sizes[i]);
  }
  const auto open = std::ranges::count(sizes, -1);
  if (open > 1 || (open == 1 && all % known != 0)) refuse_shape();
  std::ranges::replace(sizes, -1, all / known);
  return sizes;
}

std::optional<View> split_into(const View& view, const std::vector<int64_t>& sizes) {
  View result = view;
  Dimension all;
  for (const Dimension& dimension : view.dimensions)
    all.insert(all.end(), dimension.begin(), dimension.end());
  all = simplified(all);
  result.dimensions.clear();
  try {
    for (const int64_t size : sizes) result.dimensions.push_back(take(all, size));
  } catch (const Error&) {
    return {};
  }
  if (!all.empty()) return {};
  return result;
}

}  // namespace

int64_t checked_product(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) refuse("its sizes are beyond what can be computed");
  return product;
}

size_t dimension_at(int64_t axis, size_t rank) {
  if (axis < 0) axis += int64_t(rank);
  if (axis < 0 || axis >= int64_t(rank)) refuse("its axis is not one of what it reads");
  return size_t(axis);
}

int64_t slice_bound(int64_t at, int64_t size) {
  return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
}

View view_of(int layer, const TensorShape& shape) {
  return {.layer = layer,
          .dimensions = {simplified({{kBatch, 0}}), simplified({{shape[0], shape[1]}}),
                         simplified({{shape[1], 1}})}};
}

Dimension simplified(const Dimension& dimension) {
  Dimension result;
  for (const Factor& factor : dimension) {
    if (factor.size == 1) continue;
    const bool goes_on = !result.empty() && factor.size != kBatch && result.back().size != kBatch &&
                         result.back().stride == factor.size * factor.stride;
    if (goes_on) {
      result.back() = {result.back().size * factor.size, factor.stride};
    } else {
      result.push_back(factor);
    }
  }
  return result;
}

int64_t size_of(const Dimension& dimension) {
  int64_t size = 1;
  for (const Factor& factor : dimension) size = checked_product(size, factor.size);
  return size;
}

std::vector<int64_t> sizes_of(const View& view) {
  std::vector<int64_t> sizes;
  for (const Dimension& dimension : view.dimensions) sizes.push_back(size_of(dimension));
  return sizes;
}

View transposed(const View& view, const std::vector<int64_t>& order) {
  std::vector<int64_t> sorted = order;
  std::ranges::sort(sorted);
  const size_t rank = view.dimensions.size();
  if (sorted.size() != rank) refuse("it orders another number of dimensions than there are");
  for (size_t i = 0; i < rank; ++i) {
    if (sorted[i] != int64_t(i)) refuse("its order is not one of the dimensions");
  }
  View result = view;
  for (size_t i = 0; i < rank; ++i) result.dimensions[i] = view.dimensions[size_t(order[i])];
  return result;
}

View sliced(const View& view, size_t axis, int64_t begin, int64_t end) {
  const Dimension& dimension = view.dimensions[axis];
  const int64_t size = size_of(dimension);
  begin = slice_bound(begin, size), end = slice_bound(end, size);
  if (begin == 0 && end == size) return view;
  if (end <= begin) refuse("it takes nothing");
  if (dimension.size() != 1 || dimension[0].size == kBatch)
    refuse("it takes a part of the batch, or of dimensions that were joined");
  View result = view;
  result.offset += begin * dimension[0].stride;
  result.dimensions[axis] = simplified({{end - begin, dimension[0].stride}});
  return result;
}

View chosen(const View& view, size_t axis, int64_t index) {
  const int64_t size = size_of(view.dimensions[axis]);
  if (index < 0) index += size;
  if (index < 0 || index >= size) refuse("its index is outside of what it reads");
  View result = sliced(view, axis, index, index + 1);
  if (size_of(result.dimensions[axis]) != 1) refuse("it takes a part of the batch");
  result.dimensions.erase(result.dimensions.begin() + int64_t(axis));
  return result;
}

View expanded(const View& view, const std::vector<int64_t>& sizes) {
  View result = view;
  while (result.dimensions.size() < sizes.size())
    result.dimensions.insert(result.dimensions.begin(), Dimension{});
  const size_t before = result.dimensions.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    Dimension& dimension = result.dimensions[before + i];
    if (sizes[i] == 1 || sizes[i] == size_of(dimension)) continue;
    if (!dimension.empty() || sizes[i] < 1 || sizes[i] > 1'000'000)
      refuse("it repeats more than dimensions of size 1");
    dimension = {{sizes[i], 0}};
  }
  return result;
}

View reshaped(const View& view, const std::vector<int64_t>& sizes, int64_t batch) {
  std::vector<int64_t> all = sizes;
  const auto has_batch = [](int64_t size) { return size >= kBatch; };
  const bool is_literal = batch > 0 && std::ranges::none_of(sizes, has_batch);
  for (size_t i = 0; is_literal && i < sizes.size(); ++i) {
    if (sizes[i] < 1 || sizes[i] % batch != 0 || sizes[i] / batch > 1'000'000) continue;
    all = sizes;
    all[i] = sizes[i] / batch * kBatch;
    try {
      if (const auto result = split_into(view, resolved(view, all))) return *result;
    } catch (const Error&) {  // another size is that of the batch
    }
  }
  const auto result = split_into(view, resolved(view, sizes));
  if (!result) refuse_shape();
  return *result;
}

}  // namespace dlflow::runtime
