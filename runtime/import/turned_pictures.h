#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dlflow::runtime {

/// Returns the orientation in a JPEG file's EXIF data: 1 as stored, 2 to 8 mirrored or turned; 1 if
/// there is none. Source: Exif 2.32 (CIPA DC-008), tag 274.
int exif_orientation(std::string_view jpeg);

/// Collects pictures that EXIF data turns on display, but that are packed unturned.
class TurnedPictures {
 public:
  /// Checks the content of picture number `sample`, which may have been checked before.
  void look(size_t sample, std::string_view content, const std::string& file);

  /// Returns a line for users, or none.
  std::vector<std::string> notes() const;

 private:
  std::map<size_t, std::string> files_;
};

}  // namespace dlflow::runtime
