#include "runtime/import/turned_pictures.h"

#include <fmt/core.h>

#include <cstdint>

#include "base/units.h"

namespace dlflow::runtime {
namespace {

/// Numbers of TIFF, in the byte order of its header. Bytes behind the end are 0.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), big_endian_(bytes.starts_with("MM")) {}

  uint32_t number(size_t at, size_t size) const {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t index = at + (big_endian_ ? i : size - 1 - i);
      value = value << 8 | (index < bytes_.size() ? uint8_t(bytes_[index]) : 0);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool big_endian_;
};

int orientation_in(std::string_view bytes) {
  constexpr uint32_t kOrientation = 274;
  constexpr size_t kEntryBytes = 12;
  const Tiff tiff(bytes);
  const size_t folder = tiff.number(4, 4);
  const uint32_t num_entries = tiff.number(folder, 2);
  for (size_t i = 0; i < num_entries; ++i) {
    const size_t entry = folder + 2 + i * kEntryBytes;
    if (tiff.number(entry, 2) != kOrientation) continue;
    const uint32_t value = tiff.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? int(value) : 1;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::string_view jpeg) {
  using namespace std::string_view_literals;
  constexpr std::string_view kExif = "Exif\0\0"sv;
  constexpr uint8_t kApplication1 = 0xE1, kScan = 0xDA;
  for (size_t at = 2; at + 4 <= jpeg.size() && jpeg[at] == '\xFF';) {
    const auto marker = uint8_t(jpeg[at + 1]);
    const size_t length = size_t(uint8_t(jpeg[at + 2])) << 8 | uint8_t(jpeg[at + 3]);
    const std::string_view segment = jpeg.substr(at + 4, length < 2 ? 0 : length - 2);
    if (marker == kApplication1 && segment.starts_with(kExif)) {
      return orientation_in(segment.substr(kExif.size()));
    }
    if (marker == kScan || length < 2) break;
    at += 2 + length;
  }
  return 1;
}

void TurnedPictures::look(size_t sample, std::string_view content, const std::string& file) {
  if (content.starts_with("\xFF\xD8") && exif_orientation(content) != 1) {
    files_.emplace(sample, file);
  }
}

std::vector<std::string> TurnedPictures::notes() const {
  if (files_.empty()) return {};
  const size_t others = files_.size() - 1;
  const std::string more =
      others == 0
          ? ""
          : fmt::format(", and so {} {} more", others == 1 ? "is" : "are", format_count(others));
  return {files_.begin()->second + ": is stored turned or mirrored (EXIF)" + more +
          "; they are packed as they are stored: turn them first, as mogrify -auto-orient does"};
}

}  // namespace dlflow::runtime
