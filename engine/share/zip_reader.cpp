#include "engine/share/zip_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <unordered_set>

#include "base/archive/zip_format.h"
#include "base/error.h"
#include "base/text.h"

namespace dlflow {
namespace {

using namespace zip;

constexpr unsigned kMadeByMinizip = 45;  // minizip's "made by" for entries of 4 GiB or more
constexpr unsigned kEncrypted = 1 | 1 << 6 | 1 << 13;
constexpr unsigned kSizesFollow = 1 << 3;

Error refusal(const std::string& name, const std::string& why) {
  return Error(Errc::InvalidInput, "the bundle's entry '" + escaped(name) + "' " + why);
}

std::string bytes_of(uint64_t value, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += char(value >> (8 * i));
  return bytes;
}

/// The ZIP64 field for these bytes.
std::string zip64_field(const std::string& numbers) {
  return bytes_of(kZip64Field, 2) + bytes_of(numbers.size(), 2) + numbers;
}

/// Whether a header holds `numbers`, pairs of its 32-bit field and the true value, either in that
/// field or in the ZIP64 field. The ZIP64 field must be all of `extra` and contain nothing else.
bool has_numbers(std::string_view extra,
                 std::initializer_list<std::pair<uint64_t, uint64_t>> numbers) {
  std::string large;
  for (const auto& [there, value] : numbers) {
    if (there == kNoRoom32) {
      large += bytes_of(value, 8);
    } else if (there != value) {
      return false;
    }
  }
  return extra == (large.empty() ? "" : zip64_field(large));
}

/// The mode must be one that ZipWriter sets; links, folders, devices and set-user-id files have
/// others.
mode_t checked_mode(const ZipEntry& entry) {
  const auto made_by = unsigned(little_endian(entry.line, 4, 2));
  const auto mode = mode_t(little_endian(entry.line, 40, 2));
  const bool ours = made_by >> 8 == kMadeByUnix || made_by == kMadeByMinizip;
  if (!ours || (mode != (S_IFREG | 0644) && mode != (S_IFREG | 0755))) {
    throw refusal(entry.name, "is not a plain file");
  }
  return mode;
}

}  // namespace

bool path_is_safe(std::string_view path) {
  constexpr size_t kMaxPathBytes = 3072;  // PATH_MAX, minus the target folder
  constexpr size_t kMaxPartBytes = 255;   // NAME_MAX
  if (path.empty() || path.size() > kMaxPathBytes || find_invalid_utf8(path) != path.npos) {
    return false;
  }
  const bool odd_character = std::any_of(
      path.begin(), path.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; });
  if (odd_character) return false;
  for (const std::string& part : split(path, '/')) {
    if (part.empty() || part == "." || part == ".." || part.size() > kMaxPartBytes) return false;
  }
  return true;
}

ZipReader::ZipReader(const std::filesystem::path& file)
    : archive_(file, "the bundle is damaged, or was not written by `dlflow pack`: ") {
  std::unordered_set<std::string> names;
  uint64_t next = 0;  // offset at which the next entry must begin
  archive_.each_entry([&](ZipEntry entry) {
    if (entries_.size() == kMaxZipEntries) throw archive_.corrupt("it has too many files");
    if (!path_is_safe(entry.name)) throw refusal(entry.name, "has a name that leads elsewhere");
    if ((little_endian(entry.line, 8, 2) & kEncrypted) != 0) {
      throw refusal(entry.name, "is encrypted");
    }
    if (entry.stored) throw refusal(entry.name, "is not compressed with deflate");
    entry.mode = checked_mode(entry);
    next = checked_end(entry, next);
    if (!names.insert(entry.name).second) throw refusal(entry.name, "occurs twice");
    entries_.push_back(std::move(entry));
  });
  if (entries_.empty()) throw archive_.corrupt("it is empty");
  if (next != archive_.directory_begin()) {
    throw archive_.corrupt("it holds data that its directory does not list");
  }
  check_end();
}

/// The end of `entry`, which must begin at `offset` with a local header that agrees with its line
/// in the directory.
uint64_t ZipReader::checked_end(const ZipEntry& entry, uint64_t offset) const {
  const std::string_view line = entry.line;
  const std::string header = archive_.bytes_at(offset, kLocalHeaderBytes);
  const std::string extra = archive_.bytes_at(offset + kLocalHeaderBytes + entry.name.size(),
                                              size_t(little_endian(header, 28, 2)));
  const auto in_header = [&](std::string_view field) {
    return has_numbers(field, {{little_endian(header, 22, 4), entry.bytes},
                               {little_endian(header, 18, 4), entry.packed_bytes}});
  };
  constexpr size_t kCommonBytes = 12;  // flags, method, time and checksum
  constexpr size_t kCommentAndDiskBytes = 4;
  // ZipWriter reserves room for sizes that may turn out to be small.
  const bool has_sizes =
      in_header(extra) || (in_header("") && extra == zip64_field(bytes_of(0, 16)));
  if (entry.place != offset || !has_sizes ||
      !has_numbers(entry.extra, {{little_endian(line, 24, 4), entry.bytes},
                                 {little_endian(line, 20, 4), entry.packed_bytes},
                                 {little_endian(line, 42, 4), offset}}) ||
      header.substr(6, kCommonBytes) != line.substr(8, kCommonBytes) ||
      (little_endian(line, 8, 2) & kSizesFollow) != 0 ||
      line.substr(32, kCommentAndDiskBytes) != std::string(kCommentAndDiskBytes, '\0')) {
    throw archive_.corrupt("entry '" + entry.name + "' is not at its expected position");
  }
  const uint64_t content = archive_.content_of(entry);
  if (content > archive_.directory_begin() ||
      entry.packed_bytes > archive_.directory_begin() - content) {
    throw archive_.corrupt("entry '" + entry.name + "' is too long");
  }
  return content + entry.packed_bytes;
}

/// Only the records with the directory's place may follow it: the file's last 22 bytes, and in a
/// large archive two more before them. Each is compared with its expected value.
void ZipReader::check_end() const {
  const uint64_t place = archive_.directory_begin();
  const uint64_t end = archive_.directory_end();
  const uint64_t end_bytes = archive_.file_bytes() - end;
  std::string expected;
  if (end_bytes > kEndBytes) {
    const std::string count = bytes_of(entries_.size(), 8);
    const std::string made_by = archive_.bytes_at(end + 12, 4);
    expected = std::string(kEnd64) + bytes_of(kEnd64Bytes - 12, 8) + made_by + bytes_of(0, 8) +
               count + count + bytes_of(end - place, 8) + bytes_of(place, 8) +
               std::string(kLocator64) + bytes_of(0, 4) + bytes_of(end, 8) + bytes_of(1, 4);
  }
  const std::string count = bytes_of(entries_.size(), 2);
  expected += std::string(kEnd) + bytes_of(0, 4) + count + count +
              bytes_of(std::min(end - place, kNoRoom32), 4) +
              bytes_of(std::min(place, kNoRoom32), 4) + bytes_of(0, 2);
  if (end_bytes != expected.size() || archive_.bytes_at(end, expected.size()) != expected) {
    throw archive_.corrupt("there is data before or after its directory");
  }
}

std::string ZipReader::read_text(const ZipEntry& entry, uint64_t max_bytes) const {
  if (entry.bytes > max_bytes) throw refusal(entry.name, "is too large");
  std::string text;
  read(entry, [&text](std::string_view bytes) { text += bytes; });
  return text;
}

}  // namespace dlflow
