#include "base/archive/zip.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

#include "base/archive/zip_format.h"
#include "base/text.h"

namespace dlflow {
namespace {

using namespace zip;

constexpr unsigned kEncrypted = 1;
constexpr unsigned kStored = 0;
constexpr unsigned kDeflated = 8;

std::string named(const ZipEntry& entry) { return "entry '" + escaped(entry.name) + "'"; }

Error refusal(const ZipEntry& entry, const std::string& why) {
  return Error(Errc::InvalidInput, "the archive's " + named(entry) + " is " + why);
}

std::string read_link_target(const ZipArchive& archive, const ZipEntry& entry) {
  constexpr size_t kMaxLinkBytes = 4096;
  std::string target;
  archive.read(entry, [&](std::string_view bytes) {
    if (target.size() + bytes.size() > kMaxLinkBytes) {
      throw archive.corrupt(named(entry) + " is too long for a link");
    }
    target += bytes;
  });
  return target;
}

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& file, std::string damaged)
    : damaged_(std::move(damaged)), file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat info {};
  if (!file_ || ::fstat(file_.get(), &info) != 0) {
    throw_errno("cannot open " + file.string(), errno);
  }
  if (!S_ISREG(info.st_mode)) throw Error(Errc::InvalidInput, file.string() + " is no file");
  file_bytes_ = uint64_t(info.st_size);

  const uint64_t end = end_record();
  const std::string record = bytes_at(end, kEndBytes);
  num_entries_ = little_endian(record, 10, 2);
  uint64_t bytes = little_endian(record, 12, 4);
  uint64_t place = little_endian(record, 16, 4);
  directory_end_ = end;
  if (end >= kLocator64Bytes + kEnd64Bytes) {
    const std::string locator = bytes_at(end - kLocator64Bytes, kLocator64Bytes);
    if (locator.starts_with(kLocator64)) {
      directory_end_ = little_endian(locator, 8, 8);
      const std::string record64 = bytes_at(directory_end_, kEnd64Bytes);
      if (!record64.starts_with(kEnd64)) throw corrupt("its end is missing");
      num_entries_ = little_endian(record64, 32, 8);
      bytes = little_endian(record64, 40, 8);
      place = little_endian(record64, 48, 8);
    }
  }
  if (bytes > directory_end_ || place > directory_end_ - bytes) {
    throw corrupt("it has no directory at its end");
  }
  directory_begin_ = directory_end_ - bytes;
  shift_ = directory_begin_ - place;
}

std::string ZipArchive::bytes_at(uint64_t offset, size_t count) const {
  std::string bytes(count, '\0');
  if (offset > file_bytes_ || count > file_bytes_ - offset ||
      ::pread(file_.get(), bytes.data(), count, off_t(offset)) != ssize_t(count)) {
    throw corrupt("it is truncated");
  }
  return bytes;
}

/// Finds the last record: "PK\5\6", 18 bytes that end with a comment's length, then the comment.
uint64_t ZipArchive::end_record() const {
  constexpr size_t kMaxCommentBytes = 65535;
  const auto count = size_t(std::min<uint64_t>(file_bytes_, kEndBytes + kMaxCommentBytes));
  const std::string tail = bytes_at(file_bytes_ - count, count);
  for (size_t place = tail.rfind(kEnd); place != std::string::npos;
       place = place == 0 ? std::string::npos : tail.rfind(kEnd, place - 1)) {
    if (count - place < kEndBytes) continue;
    if (place + kEndBytes + little_endian(tail, place + 20, 2) == count) {
      return file_bytes_ - count + place;
    }
  }
  throw corrupt("its end is missing");
}

void ZipArchive::each_entry(const std::function<void(ZipEntry)>& use) const {
  uint64_t place = directory_begin_;
  uint64_t count = 0;
  for (; place < directory_end_; ++count) use(read_line(place));
  // Some programs store only the lower 16 bits of a larger number.
  if (place != directory_end_ || uint16_t(count) != uint16_t(num_entries_)) {
    throw corrupt("its directory has a different number of entries than it declares");
  }
}

/// The entry at `place` of the directory. Moves `place` to the next record.
ZipEntry ZipArchive::read_line(uint64_t& place) const {
  const std::string line = bytes_at(place, kLineBytes);
  if (!line.starts_with(kLine)) throw corrupt("its directory");
  const auto method = unsigned(little_endian(line, 10, 2));
  const auto name_bytes = size_t(little_endian(line, 28, 2));
  const auto extra_bytes = size_t(little_endian(line, 30, 2));
  ZipEntry entry{.name = bytes_at(place + kLineBytes, name_bytes),
                 .line = line,
                 .extra = bytes_at(place + kLineBytes + name_bytes, extra_bytes),
                 .stored = method == kStored,
                 .mode = mode_t(line[5] == char(kMadeByUnix) ? little_endian(line, 40, 2) : 0),
                 .crc = unsigned(little_endian(line, 16, 4)),
                 .packed_bytes = little_endian(line, 20, 4),
                 .bytes = little_endian(line, 24, 4),
                 .place = little_endian(line, 42, 4)};
  take_large_numbers(entry);
  entry.place += shift_;
  place += kLineBytes + name_bytes + extra_bytes + little_endian(line, 32, 2);
  if ((little_endian(line, 8, 2) & kEncrypted) != 0) {
    throw refusal(entry, "encrypted; decrypt the archive first");
  }
  if (method != kStored && method != kDeflated) {
    throw refusal(entry,
                  "compressed by method " + std::to_string(method) + "; only deflate is supported");
  }
  return entry;
}

void ZipArchive::take_large_numbers(ZipEntry& entry) const {
  std::string_view extra = entry.extra;
  while (extra.size() >= 4) {
    const auto count = size_t(little_endian(extra, 2, 2));
    std::string_view field = extra.substr(4, count);
    const bool is_zip64 = little_endian(extra, 0, 2) == kZip64Field;
    extra.remove_prefix(std::min(extra.size(), 4 + count));
    if (!is_zip64) continue;
    for (uint64_t* number : {&entry.bytes, &entry.packed_bytes, &entry.place}) {
      if (*number != kNoRoom32) continue;
      if (field.size() < 8) throw corrupt(named(entry) + " has no size");
      *number = little_endian(field, 0, 8);
      field.remove_prefix(8);
    }
    return;
  }
}

uint64_t ZipArchive::content_of(const ZipEntry& entry) const {
  const std::string header = bytes_at(entry.place, kLocalHeaderBytes);
  const auto name_bytes = size_t(little_endian(header, 26, 2));
  if (!header.starts_with(kLocalHeader) ||
      little_endian(header, 8, 2) != (entry.stored ? kStored : kDeflated) ||
      bytes_at(entry.place + kLocalHeaderBytes, name_bytes) != entry.name) {
    throw corrupt(named(entry) + " is not at its expected position");
  }
  return entry.place + kLocalHeaderBytes + name_bytes + little_endian(header, 28, 2);
}

void ZipArchive::read(const ZipEntry& entry,
                      const std::function<void(std::string_view)>& use) const {
  uint64_t place = content_of(entry);
  uint64_t packed_left = entry.packed_bytes;
  uint64_t left = entry.bytes;
  unsigned long crc = 0;
  const auto take = [&](std::string_view bytes) {
    if (bytes.size() > left) throw corrupt(named(entry) + " is longer than it declares");
    left -= bytes.size();
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), uInt(bytes.size()));
    use(bytes);
  };
  constexpr size_t kPiece = size_t{1} << 18;
  std::string buffer(kPiece, '\0');
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    throw Error(Errc::Unavailable, "zlib ran out of memory");
  }
  const Handle<z_stream, ::inflateEnd> end(&stream);
  int status = entry.stored ? Z_STREAM_END : Z_OK;
  while (packed_left > 0 && (entry.stored || status != Z_STREAM_END)) {
    std::string packed = bytes_at(place, size_t(std::min<uint64_t>(packed_left, kPiece)));
    place += packed.size();
    packed_left -= packed.size();
    if (entry.stored) {
      take(packed);
      continue;
    }
    stream.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_in = uInt(packed.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = uInt(buffer.size());
      status = ::inflate(&stream, Z_NO_FLUSH);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        throw corrupt(named(entry) + " cannot be unpacked");
      }
      take(std::string_view(buffer).substr(0, buffer.size() - stream.avail_out));
    } while (status != Z_STREAM_END && stream.avail_out == 0);
    if (stream.avail_in != 0) throw corrupt(named(entry) + " cannot be unpacked");
  }
  if (status != Z_STREAM_END || packed_left != 0 || left != 0) {
    throw corrupt(named(entry) + " ends too early");
  }
  if (crc != entry.crc) throw corrupt("the checksum of " + named(entry));
}

void read_zip(const std::filesystem::path& file, ArchiveEntries& entries) {
  const ZipArchive archive(file, "the zip archive is damaged: ");
  archive.each_entry([&](const ZipEntry& entry) {
    const mode_t type = entry.mode & S_IFMT;
    if (type != 0 && type != S_IFREG && type != S_IFDIR && type != S_IFLNK) {
      throw refusal(entry, "not a file, folder or link; it is not unpacked");
    }
    if (entry.name.ends_with('/')) {
      entries.add_folder(entry.name, entry.mode | S_IFDIR);
    } else if (type == S_IFLNK) {
      entries.add_symbolic_link(entry.name, read_link_target(archive, entry));
    } else {
      entries.begin_file(entry.name, entry.mode);
      archive.read(entry, [&](std::string_view bytes) { entries.write(bytes); });
    }
  });
}

}  // namespace dlflow
