#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/archive/archive_entries.h"
#include "base/archive/byte_source.h"
#include "base/handle.h"
#include "base/sha256.h"
#include "steps/stage/cache.h"
#include "steps/stage/listing.h"

/// Unpacking of archives within limits.
namespace dlflow::steps {

/// The limits for the unpacked files of an archive.
struct UnpackLimits {
  uint64_t max_bytes = uint64_t{1} << 40;
  uint64_t max_entries = 10'000'000;

  /// The largest expansion factor of an archive that unpacks to more than `free_bytes`.
  uint64_t max_ratio = kMaxExpansion;
  uint64_t free_bytes = kFreeExpansion;
};

/// Collects the files of one archive. The readers of the formats call it for each entry.
///
/// Contents go to numbered files: no name in an archive reaches the file system before finish() has
/// seen all of them. Every refusal is an Error{InvalidInput} with the entry's name.
class Unpacking : public ArchiveEntries {
 public:
  /// `new_file` returns a new path for a content. `packed_bytes` is the archive's size.
  Unpacking(std::function<std::filesystem::path()> new_file, uint64_t packed_bytes,
            const UnpackLimits& limits);

  /// A later file of the same name replaces an earlier one, as in tar.
  void begin_file(const std::string& name, mode_t mode) override;
  void write(std::string_view bytes) override;
  void add_symbolic_link(const std::string& name, const std::string& target) override;
  void add_hard_link(const std::string& name, const std::string& target) override;

  /// Only checks the name; folders are created with their files.
  void add_folder(const std::string& name, mode_t mode) override;
  void add_special_file(const std::string& name) override;

  /// Returns all files. Refuses a name that is both a file and a folder, and a link to anything but
  /// a file or folder of this archive. The contents are in contents().
  Listing finish();
  const std::vector<Cache::NewObject>& contents() const { return contents_; }

 private:
  std::string checked_name(const std::string& name);
  void check_mode(const std::string& name, mode_t mode) const;
  void end_file();
  bool is_folder(const std::string& name) const;  ///< whether an entry is below it
  void check_links() const;

  std::function<std::filesystem::path()> new_file_;
  uint64_t max_bytes_;
  uint64_t max_entries_;
  uint64_t num_entries_ = 0;
  uint64_t total_bytes_ = 0;

  Listing listing_;
  std::vector<Cache::NewObject> contents_;

  // The file being written, if any.
  FileDescriptor file_;
  std::filesystem::path path_;
  std::string name_;
  ListedFile entry_;
  Sha256 hash_;
};

}  // namespace dlflow::steps
