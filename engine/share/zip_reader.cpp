#include "engine/share/zip_reader.h"

#include <fcntl.h>
#include <minizip/unzip.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

// APPNOTE.TXT 6.3, "General Format of a .ZIP file".
constexpr std::string_view kLocalHeader = "PK\3\4";
constexpr std::string_view kEnd = "PK\5\6";
constexpr std::string_view kLocator64 = "PK\6\7";
constexpr std::string_view kEnd64 = "PK\6\6";
constexpr size_t kLocalHeaderBytes = 30;
constexpr size_t kDirectoryHeaderBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocator64Bytes = 20;
constexpr size_t kEnd64Bytes = 56;

constexpr unsigned kMadeByUnix = 3;
constexpr unsigned kEncrypted = 1 | 1 << 6 | 1 << 13;

Error corrupt(const std::string& what) {
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

void check(int status, const std::string& what) {
  if (status < 0) throw corrupt(what + " (minizip's error " + std::to_string(status) + ")");
}

uint64_t little_endian(std::string_view bytes, size_t offset, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | uint8_t(bytes[offset + i]);
  return value;
}

/// The mode must be one that ZipWriter gives: links, folders, devices and set-user-id files have
/// others.
bool checked_mode(const std::string& name, const unz_file_info64& info) {
  const auto mode = mode_t(info.external_fa >> 16);
  if (info.version >> 8 != kMadeByUnix || (mode != (S_IFREG | 0644) && mode != (S_IFREG | 0755))) {
    throw refusal(name, "is no plain file");
  }
  return mode == (S_IFREG | 0755);
}

void check_kind(const std::string& name, const unz_file_info64& info) {
  if ((info.flag & kEncrypted) != 0) throw refusal(name, "is encrypted");
  if (info.compression_method != Z_DEFLATED) {
    throw refusal(name, "is packed by method " + std::to_string(info.compression_method));
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
    : path_(file), file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)), zip_(nullptr, ::unzClose) {
  if (!file_) throw_errno("cannot open " + file.string(), errno);
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) throw_errno("cannot read " + file.string(), errno);
  if (!S_ISREG(info.st_mode)) throw Error(Errc::InvalidInput, file.string() + " is no file");
  file_bytes_ = uint64_t(info.st_size);
  const uint64_t directory_end = check_end();
  zip_.reset(::unzOpen64(file.c_str()));
  if (!zip_) throw corrupt("it has no directory at its end");
  read_directory(directory_end);
}

std::string ZipReader::bytes_at(uint64_t offset, size_t count) const {
  std::string bytes(count, '\0');
  if (offset > file_bytes_ || count > file_bytes_ - offset ||
      ::pread(file_.get(), bytes.data(), count, off_t(offset)) != ssize_t(count)) {
    throw corrupt("it ends too early");
  }
  return bytes;
}

/// Where the directory ends: at the record that says so, which is the file's last 22 bytes.
uint64_t ZipReader::check_end() const {
  if (file_bytes_ < kEndBytes) throw corrupt("it is too short");
  const uint64_t end = file_bytes_ - kEndBytes;
  const std::string record = bytes_at(end, kEndBytes);
  const uint64_t comment_bytes = little_endian(record, 20, 2);
  if (!record.starts_with(kEnd) || comment_bytes != 0) throw corrupt("its end is missing");
  if (end < kLocator64Bytes + kEnd64Bytes ||
      !bytes_at(end - kLocator64Bytes, kLocator64Bytes).starts_with(kLocator64)) {
    if (little_endian(record, 16, 4) + little_endian(record, 12, 4) != end) {
      throw corrupt("there is something before or behind its directory");
    }
    return end;
  }
  const uint64_t locator = end - kLocator64Bytes;
  const uint64_t end64 = locator - kEnd64Bytes;
  const std::string record64 = bytes_at(end64, kEnd64Bytes);
  const uint64_t directory_bytes = little_endian(record64, 40, 8);
  if (!record64.starts_with(kEnd64) ||
      little_endian(bytes_at(locator, kLocator64Bytes), 8, 8) != end64 || directory_bytes > end64 ||
      little_endian(record64, 48, 8) != end64 - directory_bytes) {
    throw corrupt("there is something before or behind its directory");
  }
  return end64;
}

/// The local header of `entry` must stand at `offset` and say what the directory says; minizip
/// compares the sizes, the checksum and the method. Returns where the entry ends.
uint64_t ZipReader::check_local_header(const ZipEntry& entry, unsigned flags, uint64_t offset) {
  check(::unzOpenCurrentFile(zip_.get()), "entry '" + entry.name + "'");
  const uint64_t content = ::unzGetCurrentFileZStreamPos64(zip_.get());
  ::unzCloseCurrentFile(zip_.get());
  const std::string header = bytes_at(offset, kLocalHeaderBytes);
  const size_t name_bytes = size_t(little_endian(header, 26, 2));
  const size_t extra_bytes = size_t(little_endian(header, 28, 2));
  if (!header.starts_with(kLocalHeader) || little_endian(header, 6, 2) != flags ||
      content != offset + kLocalHeaderBytes + name_bytes + extra_bytes ||
      bytes_at(offset + kLocalHeaderBytes, name_bytes) != entry.name) {
    throw corrupt("entry '" + entry.name + "' does not lie where it should");
  }
  return content;
}

void ZipReader::read_directory(uint64_t directory_end) {
  unz_global_info64 global{};
  check(::unzGetGlobalInfo64(zip_.get(), &global), "its directory");
  if (global.number_entry == 0) throw corrupt("it is empty");
  if (global.number_entry > kMaxZipEntries) throw corrupt("it has too many files");
  std::unordered_set<std::string> names;
  uint64_t next = 0;       // where the next entry has to begin
  uint64_t directory = 0;  // where the next line of the directory has to begin
  uint64_t first_line = 0;
  int status = ::unzGoToFirstFile(zip_.get());
  for (; status == UNZ_OK; status = ::unzGoToNextFile(zip_.get())) {
    unz_file_info64 info{};
    check(::unzGetCurrentFileInfo64(zip_.get(), &info, nullptr, 0, nullptr, 0, nullptr, 0),
          "an entry");
    ZipEntry entry{.name = std::string(info.size_filename, '\0'), .bytes = info.uncompressed_size};
    check(::unzGetCurrentFileInfo64(zip_.get(), &info, entry.name.data(), entry.name.size(),
                                    nullptr, 0, nullptr, 0),
          "an entry's name");
    if (!path_is_safe(entry.name)) throw refusal(entry.name, "has a name that leads elsewhere");
    if (!names.insert(entry.name).second) throw refusal(entry.name, "is there twice");
    check_kind(entry.name, info);
    entry.executable = checked_mode(entry.name, info);
    unz64_file_pos place{};
    check(::unzGetFilePos64(zip_.get(), &place), "an entry");
    entry.directory_place = place.pos_in_zip_directory;
    entry.number = place.num_of_file;
    if (entries_.empty()) first_line = directory = entry.directory_place;
    if (entry.directory_place != directory) throw corrupt("its directory has gaps");
    directory +=
        kDirectoryHeaderBytes + info.size_filename + info.size_file_extra + info.size_file_comment;
    next = check_local_header(entry, unsigned(info.flag), next) + info.compressed_size;
    if (next > directory_end) throw corrupt("entry '" + entry.name + "' is too long");
    entries_.push_back(std::move(entry));
  }
  if (status != UNZ_END_OF_LIST_OF_FILE) check(status, "its directory");
  if (next != first_line || directory != directory_end) {
    throw corrupt("it holds something that its directory does not list");
  }
}

void ZipReader::read(const ZipEntry& entry, const std::function<void(std::string_view)>& use) {
  const std::string what = "entry '" + entry.name + "'";
  const unz64_file_pos place{entry.directory_place, entry.number};
  check(::unzGoToFilePos64(zip_.get(), &place), what);
  check(::unzOpenCurrentFile(zip_.get()), what);
  std::string buffer(size_t{1} << 18, '\0');
  uint64_t left = entry.bytes;
  while (true) {
    const int got = ::unzReadCurrentFile(zip_.get(), buffer.data(), unsigned(buffer.size()));
    check(got, what);
    if (got == 0) break;
    if (uint64_t(got) > left) throw corrupt(what + " is longer than it says");
    left -= uint64_t(got);
    use(std::string_view(buffer.data(), size_t(got)));
  }
  if (left != 0) throw corrupt(what + " ends too early");
  check(::unzCloseCurrentFile(zip_.get()), "the checksum of " + what);
}

std::string ZipReader::read_text(const ZipEntry& entry, uint64_t max_bytes) {
  if (entry.bytes > max_bytes) throw refusal(entry.name, "is too large");
  std::string text;
  read(entry, [&text](std::string_view bytes) { text += bytes; });
  return text;
}

}  // namespace dlflow
