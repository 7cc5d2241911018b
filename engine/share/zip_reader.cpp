#include "engine/share/zip_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>

#include "base/archive/inflate.h"
#include "base/archive/zip_format.h"
#include "base/error.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

using namespace zip;

constexpr uint64_t kNoRoom16 = 0xffff;  // as kNoRoom32
constexpr uint64_t kZip64Field = 1;

constexpr unsigned kMadeByMinizip = 45;  // all that it says of who made an entry of 4 GiB or more
constexpr unsigned kEncrypted = 1 | 1 << 6 | 1 << 13;
constexpr unsigned kSizesFollow = 1 << 3;

Error corrupt_archive(const std::string& what) {
  return Error(Errc::Corrupt,
               "the bundle is damaged, or was not written by `dlflow pack`: " + what);
}

/// No byte of a stranger's name steers the terminal.
std::string printable(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return name;
}

Error refusal(const std::string& name, const std::string& why) {
  return Error(Errc::InvalidInput, "the bundle's entry '" + printable(name) + "' " + why);
}

std::string bytes_of(uint64_t value, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += char(value >> (8 * i));
  return bytes;
}

/// What local header and directory both say of an entry, from the flags on: where each field lies
/// in either, from there.
struct Fields {
  explicit Fields(std::string_view text)
      : flags(unsigned(little_endian(text, 0, 2))),
        method(unsigned(little_endian(text, 2, 2))),
        time(text.substr(4, 4)),
        crc(unsigned(little_endian(text, 8, 4))),
        packed_bytes(little_endian(text, 12, 4)),
        bytes(little_endian(text, 16, 4)),
        name_bytes(size_t(little_endian(text, 20, 2))),
        extra_bytes(size_t(little_endian(text, 22, 2))) {}

  unsigned flags;
  unsigned method;
  std::string_view time;
  unsigned crc;
  uint64_t packed_bytes;
  uint64_t bytes;
  size_t name_bytes;
  size_t extra_bytes;
};

/// Replaces those of `numbers` that had no room by the numbers of the ZIP64 field, which has to be
/// all of `extra`, and to hold nothing else. Whether that is so.
bool take_from_zip64(std::string_view extra, std::initializer_list<uint64_t*> numbers) {
  std::string_view rest = extra.substr(std::min<size_t>(extra.size(), 4));
  size_t taken = 0;
  for (uint64_t* number : numbers) {
    if (*number != kNoRoom32) continue;
    if (rest.size() < taken + 8) return false;
    *number = little_endian(rest, taken, 8);
    taken += 8;
  }
  if (taken == 0) return extra.empty();
  return taken == rest.size() && extra.starts_with(bytes_of(kZip64Field, 2) + bytes_of(taken, 2));
}

/// The mode must be one that ZipWriter gives: links, folders, devices and set-user-id files have
/// others.
bool checked_mode(const std::string& name, unsigned made_by, unsigned attributes) {
  const auto mode = mode_t(attributes >> 16);
  const bool ours = made_by >> 8 == kMadeByUnix || made_by == kMadeByMinizip;
  if (!ours || (mode != (S_IFREG | 0644) && mode != (S_IFREG | 0755))) {
    throw refusal(name, "is no plain file");
  }
  return mode == (S_IFREG | 0755);
}

void check_kind(const std::string& name, const Fields& fields) {
  if ((fields.flags & kEncrypted) != 0) throw refusal(name, "is encrypted");
  if (fields.method != Z_DEFLATED) {
    throw refusal(name, "is packed by method " + std::to_string(fields.method));
  }
}

}  // namespace

bool path_is_safe(std::string_view path) {
  constexpr size_t kMaxPathBytes = 3072;  // PATH_MAX, less the folder that it is unpacked to
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

ZipReader::ZipReader(const fs::path& file)
    : path_(file), file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!file_) throw_errno("cannot open " + file.string(), errno);
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) throw_errno("cannot read " + file.string(), errno);
  if (!S_ISREG(info.st_mode)) throw Error(Errc::InvalidInput, file.string() + " is no file");
  file_bytes_ = uint64_t(info.st_size);
  read_directory(find_directory());
}

std::string ZipReader::bytes_at(uint64_t offset, size_t count) const {
  std::string bytes(count, '\0');
  if (offset > file_bytes_ || count > file_bytes_ - offset ||
      ::pread(file_.get(), bytes.data(), count, off_t(offset)) != ssize_t(count)) {
    throw corrupt_archive("it ends too early");
  }
  return bytes;
}

/// Behind it stand only the records that say where it is: the file's last 22 bytes, and of a large
/// archive two more before them. Each is compared with what it has to be.
ZipReader::Directory ZipReader::find_directory() const {
  if (file_bytes_ < kEndBytes) throw corrupt_archive("it is too short");
  const uint64_t end = file_bytes_ - kEndBytes;
  const std::string record = bytes_at(end, kEndBytes);
  if (!record.starts_with(kEnd)) throw corrupt_archive("its end is missing");
  Directory found{.place = little_endian(record, 16, 4),
                  .end = end,
                  .num_entries = little_endian(record, 10, 2)};
  uint64_t bytes = little_endian(record, 12, 4);
  const bool is_large = end >= kLocator64Bytes + kEnd64Bytes &&
                        bytes_at(end - kLocator64Bytes, kLocator64Bytes).starts_with(kLocator64);
  if (is_large) {
    found.end = end - kLocator64Bytes - kEnd64Bytes;
    const std::string record64 = bytes_at(found.end, kEnd64Bytes);
    found.num_entries = little_endian(record64, 32, 8);
    bytes = little_endian(record64, 40, 8);
    found.place = little_endian(record64, 48, 8);
    const std::string expected =
        std::string(kEnd64) + bytes_of(kEnd64Bytes - 12, 8) + record64.substr(12, 4) +
        bytes_of(0, 8) + bytes_of(found.num_entries, 8) + bytes_of(found.num_entries, 8) +
        bytes_of(bytes, 8) + bytes_of(found.place, 8) + std::string(kLocator64) + bytes_of(0, 4) +
        bytes_of(found.end, 8) + bytes_of(1, 4);
    if (bytes_at(found.end, kEnd64Bytes + kLocator64Bytes) != expected) {
      throw corrupt_archive("its end does not say where its directory is");
    }
  }
  const std::string entries = bytes_of(std::min(found.num_entries, kNoRoom16), 2);
  const std::string expected = std::string(kEnd) + bytes_of(0, 4) + entries + entries +
                               bytes_of(std::min(bytes, kNoRoom32), 4) +
                               bytes_of(std::min(found.place, kNoRoom32), 4) + bytes_of(0, 2);
  if (record != expected || bytes > found.end || found.place != found.end - bytes) {
    throw corrupt_archive("there is something before or behind its directory");
  }
  return found;
}

/// The local header at `offset` must say what the directory says in `line`. Returns where the
/// content begins.
uint64_t ZipReader::check_local_header(const ZipEntry& entry, std::string_view line,
                                       uint64_t offset) const {
  const std::string header = bytes_at(offset, kLocalHeaderBytes);
  const Fields of_line(line);
  Fields fields(std::string_view(header).substr(6));
  const uint64_t name = offset + kLocalHeaderBytes;
  const uint64_t extra = name + fields.name_bytes;
  const std::string zip64 = bytes_at(extra, fields.extra_bytes);
  // ZipWriter leaves room for sizes that turn out to be small.
  const bool unused = fields.bytes != kNoRoom32 &&
                      zip64 == bytes_of(kZip64Field, 2) + bytes_of(16, 2) + bytes_of(0, 16);
  if (!header.starts_with(kLocalHeader) || fields.flags != of_line.flags ||
      fields.method != of_line.method || fields.time != of_line.time || fields.crc != of_line.crc ||
      !(unused || take_from_zip64(zip64, {&fields.bytes, &fields.packed_bytes})) ||
      fields.bytes != entry.bytes || fields.packed_bytes != entry.packed_bytes ||
      bytes_at(name, fields.name_bytes) != entry.name) {
    throw corrupt_archive("entry '" + entry.name + "' does not lie where it should");
  }
  return extra + fields.extra_bytes;
}

/// The entry that the directory's line at `place` is about, and that has to begin at `offset`;
/// moves `place` behind the line.
ZipEntry ZipReader::read_line(uint64_t& place, uint64_t offset) const {
  const std::string line = bytes_at(place, kLineBytes);
  if (!line.starts_with(kLine)) throw corrupt_archive("its directory has gaps");
  const std::string_view common = std::string_view(line).substr(8);
  const Fields fields(common);
  ZipEntry entry{.name = bytes_at(place + kLineBytes, fields.name_bytes),
                 .bytes = fields.bytes,
                 .packed_bytes = fields.packed_bytes,
                 .crc = fields.crc};
  if (!path_is_safe(entry.name)) throw refusal(entry.name, "has a name that leads elsewhere");
  check_kind(entry.name, fields);
  entry.executable = checked_mode(entry.name, unsigned(little_endian(line, 4, 2)),
                                  unsigned(little_endian(line, 38, 4)));
  const std::string extra = bytes_at(place + kLineBytes + fields.name_bytes, fields.extra_bytes);
  uint64_t said_offset = little_endian(line, 42, 4);
  constexpr size_t kCommentAndDiskBytes = 4;
  if (!take_from_zip64(extra, {&entry.bytes, &entry.packed_bytes, &said_offset}) ||
      said_offset != offset || (fields.flags & kSizesFollow) != 0 ||
      line.substr(32, kCommentAndDiskBytes) != std::string(kCommentAndDiskBytes, '\0')) {
    throw corrupt_archive("entry '" + entry.name + "' does not lie where it should");
  }
  entry.content = check_local_header(entry, common, offset);
  place += kLineBytes + fields.name_bytes + fields.extra_bytes;
  return entry;
}

void ZipReader::read_directory(const Directory& directory) {
  if (directory.num_entries == 0) throw corrupt_archive("it is empty");
  if (directory.num_entries > kMaxZipEntries) throw corrupt_archive("it has too many files");
  std::unordered_set<std::string> names;
  uint64_t next = 0;  // where the next entry has to begin
  uint64_t place = directory.place;
  while (entries_.size() < directory.num_entries) {
    ZipEntry entry = read_line(place, next);
    if (!names.insert(entry.name).second) throw refusal(entry.name, "is there twice");
    if (entry.content > directory.place || entry.packed_bytes > directory.place - entry.content) {
      throw corrupt_archive("entry '" + entry.name + "' is too long");
    }
    next = entry.content + entry.packed_bytes;
    entries_.push_back(std::move(entry));
  }
  if (next != directory.place || place != directory.end) {
    throw corrupt_archive("it holds something that its directory does not list");
  }
}

void ZipReader::read(const ZipEntry& entry, const std::function<void(std::string_view)>& use) {
  const std::string what = "entry '" + entry.name + "'";
  constexpr uint64_t kPiece = 1 << 18;
  Inflater inflater;
  uint64_t left = entry.bytes;
  uint64_t packed_left = entry.packed_bytes;
  unsigned long crc = 0;
  auto status = Inflater::Status::More;
  while (packed_left > 0 && status == Inflater::Status::More) {
    std::string packed = bytes_at(entry.content + entry.packed_bytes - packed_left,
                                  size_t(std::min(packed_left, kPiece)));
    packed_left -= packed.size();
    status = inflater.unpack(packed, [&](std::string_view bytes) {
      if (bytes.size() > left) throw corrupt_archive(what + " is longer than it says");
      left -= bytes.size();
      crc = ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), uInt(bytes.size()));
      use(bytes);
    });
  }
  if (status == Inflater::Status::Damaged) throw corrupt_archive(what + " cannot be unpacked");
  if (status != Inflater::Status::End || left != 0 || packed_left != 0) {
    throw corrupt_archive(what + " ends too early");
  }
  if (crc != entry.crc) throw corrupt_archive(what + " has another checksum");
}

std::string ZipReader::read_text(const ZipEntry& entry, uint64_t max_bytes) {
  if (entry.bytes > max_bytes) throw refusal(entry.name, "is too large");
  std::string text;
  read(entry, [&text](std::string_view bytes) { text += bytes; });
  return text;
}

}  // namespace dlflow
