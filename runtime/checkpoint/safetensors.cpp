#include "runtime/checkpoint/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/sha256.h"
#include "base/shared_bytes.h"
#include "base/text.h"
#include "runtime/checkpoint/safetensors_header.h"

namespace dlflow::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kLengthBytes = 8;

/// As in the reference implementation: a larger header is certainly damaged.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string shape_needs(std::optional<uint64_t> bytes) {
  return bytes ? "needs " + std::to_string(*bytes) + " bytes" : "is larger than any memory";
}

/// Throws unless `tensors` can be written.
void validate(std::span<const TensorView> tensors) {
  std::set<std::string_view> names;
  for (const TensorView& tensor : tensors) {
    const auto fail = [&](const std::string& what) {
      return Error(Errc::InvalidInput, "cannot write tensor '" + tensor.name + "': " + what);
    };
    if (find_invalid_utf8(tensor.name) != std::string::npos) throw fail("its name is not UTF-8");
    if (tensor.name == "__metadata__") throw fail("the format reserves this name");
    if (!names.insert(tensor.name).second) throw fail("this name occurs twice");
    const auto expected = tensor_bytes(tensor.dtype, tensor.shape);
    if (expected != tensor.bytes.size()) {
      throw fail("its shape " + shape_needs(expected) + ", but it has " +
                 std::to_string(tensor.bytes.size()));
    }
  }
}

/// Sorts by decreasing element size, then by name: each tensor is aligned to its elements, and
/// equal content gives equal files.
std::vector<const TensorView*> in_file_order(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return a->dtype != b->dtype ? a->dtype > b->dtype : a->name < b->name;
  });
  return order;
}

SafetensorsHeader header_of(std::span<const TensorView* const> order,
                            const SafetensorsMetadata& metadata) {
  SafetensorsHeader header{.metadata = metadata, .entries = {}};
  uint64_t offset = 0;
  for (const TensorView* tensor : order) {
    const uint64_t end = offset + tensor->bytes.size();
    header.entries.push_back({tensor->name, tensor->dtype, tensor->shape, offset, end});
    offset = end;
  }
  return header;
}

/// Throws unless the entries cover `data_bytes` without overlap or gap, and the size of each fits
/// its shape.
void validate(std::vector<HeaderEntry> entries, uint64_t data_bytes, const std::string& source) {
  const auto fail = [&](const std::string& what) {
    return Error(Errc::Corrupt, source + " is not a valid safetensors file: " + what);
  };
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t offset = 0;
  for (const HeaderEntry& entry : entries) {
    const std::string who = "tensor '" + entry.name + "' ";
    if (entry.begin > entry.end || entry.end > data_bytes) {
      throw fail(who + "ends at byte " + std::to_string(entry.end) + " of " +
                 std::to_string(data_bytes));
    }
    if (entry.begin != offset) {
      throw fail(who + "begins at byte " + std::to_string(entry.begin) + " instead of " +
                 std::to_string(offset));
    }
    const auto expected = tensor_bytes(entry.dtype, entry.shape);
    if (expected != entry.end - entry.begin) {
      throw fail(who + "has " + std::to_string(entry.end - entry.begin) + " bytes, but its shape " +
                 shape_needs(expected));
    }
    offset = entry.end;
  }
  if (offset != data_bytes) {
    throw fail(std::to_string(data_bytes - offset) + " bytes at its end belong to no tensor");
  }
}

}  // namespace

void require_elements(const TensorView& tensor, DType dtype, size_t num_elements) {
  if (tensor.dtype != dtype) {
    throw Error(Errc::InvalidInput, "tensor '" + tensor.name + "' has elements of type " +
                                        std::string(name(tensor.dtype)) + ", expected " +
                                        std::string(name(dtype)));
  }
  const size_t present = tensor.bytes.size() / element_size(dtype);
  if (present != num_elements) {
    throw Error(Errc::InvalidInput, "tensor '" + tensor.name + "' has " + std::to_string(present) +
                                        " elements, expected " + std::to_string(num_elements));
  }
}

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorView> tensors,
                              const SafetensorsMetadata& metadata) {
  validate(tensors);
  const auto order = in_file_order(tensors);
  const std::string header = format_header(header_of(order, metadata));
  const uint64_t header_bytes = header.size();

  const FileDescriptor file = open_or_throw(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
  WrittenFile written;
  Sha256 hash;
  const auto write = [&](std::string_view bytes) {
    write_all(file.get(), bytes, path);
    hash.update(bytes);
    written.bytes += bytes.size();
  };
  write(as_text(std::as_bytes(std::span(&header_bytes, 1))));
  write(header);
  for (const TensorView* tensor : order) write(as_text(tensor->bytes));
  if (::fsync(file.get()) != 0) throw_errno("cannot write " + path.string(), errno);
  written.sha256 = hash.hex();
  return written;
}

Safetensors Safetensors::open(const std::filesystem::path& path) {
  const SharedBytes mapping = map_file(path);
  Safetensors file = parse(std::as_bytes(std::span(mapping.view)), path.string());
  file.mapping_ = mapping.owner;
  return file;
}

Safetensors Safetensors::parse(std::span<const std::byte> file, const std::string& source) {
  uint64_t header_bytes = 0;
  if (file.size() >= kLengthBytes) std::memcpy(&header_bytes, file.data(), kLengthBytes);
  if (file.size() < kLengthBytes || header_bytes > kMaxHeaderBytes ||
      header_bytes > file.size() - kLengthBytes) {
    throw Error(Errc::Corrupt,
                source +
                    " is not a safetensors file, or only the beginning of one; in Python, "
                    "safetensors.torch.save_file() writes one, and python3 -m "
                    "dlflow.torch.weights NET.pt -o NET.safetensors makes one");
  }
  SafetensorsHeader header =
      parse_header(as_text(file.subspan(kLengthBytes, header_bytes)), source);
  const auto data = file.subspan(kLengthBytes + header_bytes);
  validate(header.entries, data.size(), source);

  Safetensors result;
  result.source_ = source;
  result.metadata_ = std::move(header.metadata);
  for (HeaderEntry& entry : header.entries) {
    result.tensors_.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape),
                               data.subspan(entry.begin, entry.end - entry.begin)});
  }
  std::sort(result.tensors_.begin(), result.tensors_.end(),
            [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
  return result;
}

const TensorView& Safetensors::at(std::string_view wanted) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), wanted,
      [](const TensorView& tensor, std::string_view text) { return tensor.name < text; });
  if (found != tensors_.end() && found->name == wanted) return *found;
  std::vector<std::string> names;
  for (const TensorView& tensor : tensors_) names.push_back(tensor.name);
  throw Error(Errc::NotFound, source_ + " has no tensor '" + std::string(wanted) + "'" +
                                  did_you_mean(wanted, names));
}

}  // namespace dlflow::runtime
