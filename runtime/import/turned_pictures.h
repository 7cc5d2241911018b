#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dlflow::runtime {

/// How EXIF data in a JPEG file says that its picture is to be shown: 1 as it is stored, 2 to 8
/// mirrored or turned. 1, too, where it says nothing. Source: Exif 2.32 (CIPA DC-008), tag 274.
int exif_orientation(std::string_view jpeg);

/// The pictures that people see turned, as cameras store them, and that are packed unturned.
class TurnedPictures {
 public:
  /// Looks at the content of picture number `sample`, which may have been looked at before.
  void look(size_t sample, std::string_view content, const std::string& file);

  /// A line for people, or none.
  std::vector<std::string> notes() const;

 private:
  std::map<size_t, std::string> files_;
};

}  // namespace dlflow::runtime
