#include "steps/stage/zip.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/archive/inflate.h"
#include "base/archive/zip_format.h"
#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"

namespace dlflow::steps {
namespace {

using namespace zip;

constexpr unsigned kEncrypted = 1;
constexpr unsigned kStored = 0;
constexpr unsigned kDeflated = 8;

Error corrupt(const std::string& what) {
  return Error(Errc::Corrupt, "the zip archive is damaged: " + what);
}

struct Entry {
  std::string name;
  mode_t mode = 0;  ///< 0 if the archive was not made on Unix
  unsigned method = kStored;
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  unsigned crc = 0;
  uint64_t place = 0;  ///< of its local header
};

struct Directory {
  uint64_t place = 0;
  uint64_t end = 0;
  uint64_t num_entries = 0;
  uint64_t shift = 0;  ///< what stands before the archive: places in it are less by so much
};

class Archive {
 public:
  explicit Archive(const std::filesystem::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat info {};
    if (!file_ || ::fstat(file_.get(), &info) != 0) {
      throw_errno("cannot read " + path.string(), errno);
    }
    bytes_ = uint64_t(info.st_size);
  }

  std::string bytes_at(uint64_t offset, size_t count) const {
    std::string bytes(count, '\0');
    if (offset > bytes_ || count > bytes_ - offset ||
        ::pread(file_.get(), bytes.data(), count, off_t(offset)) != ssize_t(count)) {
      throw corrupt("it ends too early");
    }
    return bytes;
  }

  Directory directory() const {
    const uint64_t end = end_record();
    const std::string record = bytes_at(end, kEndBytes);
    Directory found{.place = little_endian(record, 16, 4),
                    .end = end,
                    .num_entries = little_endian(record, 10, 2)};
    uint64_t bytes = little_endian(record, 12, 4);
    if (end >= kLocator64Bytes + kEnd64Bytes) {
      const std::string locator = bytes_at(end - kLocator64Bytes, kLocator64Bytes);
      if (locator.starts_with(kLocator64)) {
        found.end = little_endian(locator, 8, 8);
        const std::string record64 = bytes_at(found.end, kEnd64Bytes);
        if (!record64.starts_with(kEnd64)) throw corrupt("its end is missing");
        found.num_entries = little_endian(record64, 32, 8);
        bytes = little_endian(record64, 40, 8);
        found.place = little_endian(record64, 48, 8);
      }
    }
    if (bytes > found.end || found.place > found.end - bytes) {
      throw corrupt("it has no directory at its end");
    }
    found.shift = found.end - bytes - found.place;
    found.place += found.shift;
    return found;
  }

  /// The entry that the directory's line at `place` is about; moves `place` behind the line.
  Entry read_line(uint64_t& place, uint64_t shift) const {
    const std::string line = bytes_at(place, kLineBytes);
    if (!line.starts_with(kLine)) throw corrupt("its directory");
    const auto name_bytes = size_t(little_endian(line, 28, 2));
    const auto extra_bytes = size_t(little_endian(line, 30, 2));
    Entry entry{.name = bytes_at(place + kLineBytes, name_bytes),
                .method = unsigned(little_endian(line, 10, 2)),
                .packed_bytes = little_endian(line, 20, 4),
                .bytes = little_endian(line, 24, 4),
                .crc = unsigned(little_endian(line, 16, 4)),
                .place = little_endian(line, 42, 4)};
    take_large_numbers(entry, bytes_at(place + kLineBytes + name_bytes, extra_bytes));
    entry.place += shift;
    place += kLineBytes + name_bytes + extra_bytes + little_endian(line, 32, 2);
    if (line[5] == char(kMadeByUnix)) entry.mode = mode_t(little_endian(line, 40, 2));
    check_kind(entry, unsigned(little_endian(line, 8, 2)));
    return entry;
  }

  /// Hands the entry's content to `use`, piece by piece; its length and checksum are verified.
  void read(const Entry& entry, const std::function<void(std::string_view)>& use) const {
    const std::string what = "entry '" + entry.name + "'";
    uint64_t place = content_of(entry);
    uint64_t packed_left = entry.packed_bytes;
    uint64_t left = entry.bytes;
    unsigned long crc = 0;
    const auto take = [&](std::string_view bytes) {
      if (bytes.size() > left) throw corrupt(what + " is longer than it says");
      left -= bytes.size();
      crc = ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), uInt(bytes.size()));
      use(bytes);
    };
    Inflater inflater;
    auto status = Inflater::Status::More;
    while (packed_left > 0 && status == Inflater::Status::More) {
      constexpr uint64_t kPiece = 1 << 18;
      std::string packed = bytes_at(place, size_t(std::min(packed_left, kPiece)));
      place += packed.size();
      packed_left -= packed.size();
      if (entry.method == kStored) {
        take(packed);
      } else {
        status = inflater.unpack(packed, take);
      }
    }
    if (status == Inflater::Status::Damaged) throw corrupt(what + " cannot be unpacked");
    const bool at_end = entry.method == kStored || status == Inflater::Status::End;
    if (!at_end || packed_left != 0 || left != 0) throw corrupt(what + " ends too early");
    if (crc != entry.crc) throw corrupt("the checksum of " + what);
  }

 private:
  /// Where the last record is: "PK\5\6", 18 bytes with the length of a comment at their end, the
  /// comment.
  uint64_t end_record() const {
    constexpr size_t kMaxCommentBytes = 65535;
    const auto count = size_t(std::min<uint64_t>(bytes_, kEndBytes + kMaxCommentBytes));
    const std::string tail = bytes_at(bytes_ - count, count);
    for (size_t place = tail.rfind(kEnd); place != std::string::npos;
         place = place == 0 ? std::string::npos : tail.rfind(kEnd, place - 1)) {
      if (count - place < kEndBytes) continue;
      if (place + kEndBytes + little_endian(tail, place + 20, 2) == count) {
        return bytes_ - count + place;
      }
    }
    throw corrupt("its end is missing");
  }

  static void take_large_numbers(Entry& entry, std::string_view extra) {
    while (extra.size() >= 4) {
      const auto count = size_t(little_endian(extra, 2, 2));
      std::string_view field = extra.substr(4, count);
      const bool is_zip64 = little_endian(extra, 0, 2) == 1;
      extra.remove_prefix(std::min(extra.size(), 4 + count));
      if (!is_zip64) continue;
      for (uint64_t* number : {&entry.bytes, &entry.packed_bytes, &entry.place}) {
        if (*number != kNoRoom32) continue;
        if (field.size() < 8) throw corrupt("entry '" + entry.name + "' has no size");
        *number = little_endian(field, 0, 8);
        field.remove_prefix(8);
      }
      return;
    }
  }

  static void check_kind(const Entry& entry, unsigned flags) {
    const auto refuse = [&](const std::string& why) {
      throw Error(Errc::InvalidInput, "the archive's entry '" + entry.name + "' is " + why);
    };
    if ((flags & kEncrypted) != 0) refuse("encrypted; decrypt the archive first");
    if (entry.method != kStored && entry.method != kDeflated) {
      refuse("packed by method " + std::to_string(entry.method) + "; only deflate is known");
    }
    const mode_t type = entry.mode & S_IFMT;
    if (type != 0 && type != S_IFREG && type != S_IFDIR && type != S_IFLNK) {
      refuse("no file, folder or link, which is not unpacked");
    }
  }

  /// Where the content begins: behind a header that is about the same entry.
  uint64_t content_of(const Entry& entry) const {
    const std::string header = bytes_at(entry.place, kLocalHeaderBytes);
    const auto name_bytes = size_t(little_endian(header, 26, 2));
    if (!header.starts_with(kLocalHeader) || little_endian(header, 8, 2) != entry.method ||
        bytes_at(entry.place + kLocalHeaderBytes, name_bytes) != entry.name) {
      throw corrupt("entry '" + entry.name + "' is not where it should be");
    }
    return entry.place + kLocalHeaderBytes + name_bytes + little_endian(header, 28, 2);
  }

  std::filesystem::path path_;
  FileDescriptor file_;
  uint64_t bytes_ = 0;
};

std::string read_link_target(const Archive& archive, const Entry& entry) {
  constexpr size_t kMaxLinkBytes = 4096;
  std::string target;
  archive.read(entry, [&](std::string_view bytes) {
    if (target.size() + bytes.size() > kMaxLinkBytes) {
      throw corrupt("link '" + entry.name + "' is too long");
    }
    target += bytes;
  });
  return target;
}

}  // namespace

void read_zip(const std::filesystem::path& path, Unpacking& unpacking) {
  const Archive archive(path);
  const Directory directory = archive.directory();
  uint64_t place = directory.place;
  uint64_t count = 0;
  for (; place < directory.end; ++count) {
    const Entry entry = archive.read_line(place, directory.shift);
    if (entry.name.ends_with('/')) {
      unpacking.add_folder(entry.name, entry.mode | S_IFDIR);
    } else if (S_ISLNK(entry.mode)) {
      unpacking.add_symbolic_link(entry.name, read_link_target(archive, entry));
    } else {
      unpacking.begin_file(entry.name, entry.mode);
      archive.read(entry, [&](std::string_view bytes) { unpacking.write(bytes); });
    }
  }
  // Some programs write the last 16 bits of a larger number.
  if (place != directory.end || uint16_t(count) != uint16_t(directory.num_entries)) {
    throw corrupt("its directory has another number of entries than it says");
  }
}

}  // namespace dlflow::steps
