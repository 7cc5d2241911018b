#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

/// The safetensors format: named tensors in one file, readable by the Python package of that name.
/// docs/contributor/checkpoint-format.md describes every byte.
namespace dlflow::runtime {

/// The type of an element, in the order by which the reference implementation sorts tensors (it
/// writes the largest first, so that each tensor is aligned to its elements).
enum class DType { U8, F16, BF16, I32, F32, F64, I64 };

/// Bytes per element.
size_t element_size(DType dtype);

/// Returns the name in the format: "F32".
std::string_view name(DType dtype);

/// A non-owning view of a tensor: row-major, little-endian, not necessarily aligned.
struct TensorView {
  std::string name;
  DType dtype = DType::F32;
  std::vector<uint64_t> shape;  ///< empty: a scalar of one element
  std::span<const std::byte> bytes;
};

/// The DType of a C++ type: float, double, int32_t, int64_t, uint8_t.
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::F32;
  if constexpr (std::is_same_v<T, double>) return DType::F64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::I32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::I64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::U8;
}

/// Returns a named view of `elements`, which must outlive it.
template <typename T>
TensorView tensor_view(std::string name, std::vector<uint64_t> shape, std::span<const T> elements) {
  return {std::move(name), dtype_of<T>(), std::move(shape), std::as_bytes(elements)};
}

/// Throws Error{InvalidInput} unless `tensor` holds `num_elements` elements of `dtype`.
void require_elements(const TensorView& tensor, DType dtype, size_t num_elements);

/// Copies `tensor` to `elements`, bit for bit. Throws Error{InvalidInput} naming the tensor if type
/// or number of elements differ; the caller must compare shapes.
template <typename T>
void copy_elements(const TensorView& tensor, std::span<T> elements) {
  require_elements(tensor, dtype_of<T>(), elements.size());
  if (!elements.empty()) std::memcpy(elements.data(), tensor.bytes.data(), tensor.bytes.size());
}

using SafetensorsMetadata = std::map<std::string, std::string>;

/// Size and hash of a file, computed while writing it.
struct WrittenFile {
  uint64_t bytes = 0;
  std::string sha256;
};

/// Writes `tensors` to the new file `path` and syncs it. The order of `tensors` does not matter:
/// equal tensors and metadata give equal files, and the same ones as the reference implementation.
/// Throws Error{InvalidInput} if a name occurs twice, is not UTF-8 or is "__metadata__", or if a
/// shape does not fit its bytes.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorView> tensors,
                              const SafetensorsMetadata& metadata = {});

/// A safetensors file that was checked as a whole: lengths, names, types, shapes, offsets without
/// overlap or gap. Views and spans live as long as this object (copies share the mapping).
class Safetensors {
 public:
  /// Maps the file, which must not be truncated meanwhile. Throws Error{Corrupt} with the reason.
  static Safetensors open(const std::filesystem::path& path);

  /// Checks `file`, which must outlive the result; `source` names it in messages.
  static Safetensors parse(std::span<const std::byte> file, const std::string& source);

  /// Sorted by name.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }

  /// Throws Error{NotFound}, suggesting a similar name.
  const TensorView& at(std::string_view name) const;

 private:
  std::shared_ptr<const void> mapping_;
  std::string source_;
  std::vector<TensorView> tensors_;
  SafetensorsMetadata metadata_;
};

}  // namespace dlflow::runtime
