#include "steps/stage/zip.h"

#include <minizip/unzip.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/handle.h"

namespace dlflow::steps {
namespace {

using ZipFile = Handle<void, unzClose>;

constexpr unsigned kMadeByUnix = 3;
constexpr uLong kEncrypted = 1;
constexpr uLong kStored = 0;
constexpr uLong kDeflated = 8;

Error corrupt(const std::string& what) {
  return Error(Errc::Corrupt, "the zip archive is damaged: " + what);
}

void check(int status, const std::string& what) {
  if (status < 0) throw corrupt(what + " (minizip's error " + std::to_string(status) + ")");
}

/// Throws unless the archive ends as one must: "PK\5\6", 18 bytes with the length of a comment at
/// their end, the comment. minizip takes bytes that are cut off there for zeros.
void verify_end(const std::filesystem::path& archive) {
  constexpr size_t kEndBytes = 22;
  constexpr size_t kMaxCommentBytes = 65535;
  std::ifstream file(archive, std::ios::binary | std::ios::ate);
  const auto size = size_t(std::max<std::streamoff>(file.tellg(), 0));
  std::string tail(std::min(size, kEndBytes + kMaxCommentBytes), '\0');
  file.seekg(std::streamoff(size - tail.size()));
  file.read(tail.data(), std::streamsize(tail.size()));
  if (!file) throw corrupt("it cannot be read");
  for (size_t place = tail.rfind("PK\5\6"); place != std::string::npos;
       place = place == 0 ? std::string::npos : tail.rfind("PK\5\6", place - 1)) {
    if (tail.size() - place < kEndBytes) continue;
    const size_t comment_bytes = uint8_t(tail[place + 20]) | size_t(uint8_t(tail[place + 21])) << 8;
    if (place + kEndBytes + comment_bytes == tail.size()) return;
  }
  throw corrupt("its end is missing");
}

struct Entry {
  std::string name;
  mode_t mode = 0;  ///< 0 if the archive was not made on Unix
};

/// The entry that `zip` stands at.
Entry current_entry(unzFile zip) {
  unz_file_info64 info{};
  check(::unzGetCurrentFileInfo64(zip, &info, nullptr, 0, nullptr, 0, nullptr, 0), "an entry");
  Entry entry;
  entry.name.resize(info.size_filename);
  check(::unzGetCurrentFileInfo64(zip, &info, entry.name.data(), entry.name.size(), nullptr, 0,
                                  nullptr, 0),
        "an entry's name");
  if (info.version >> 8 == kMadeByUnix) entry.mode = mode_t(info.external_fa >> 16);
  const auto refuse = [&](const std::string& why) {
    throw Error(Errc::InvalidInput, "the archive's entry '" + entry.name + "' is " + why);
  };
  if ((info.flag & kEncrypted) != 0) refuse("encrypted; decrypt the archive first");
  if (info.compression_method != kStored && info.compression_method != kDeflated) {
    refuse("packed by method " + std::to_string(info.compression_method) +
           "; only deflate is known");
  }
  const mode_t type = entry.mode & S_IFMT;
  if (type != 0 && type != S_IFREG && type != S_IFDIR && type != S_IFLNK) {
    refuse("no file, folder or link, which is not unpacked");
  }
  return entry;
}

/// Hands the entry's content to `use`, piece by piece; the checksum is verified at its end.
template <typename Use>
void read_content(unzFile zip, const std::string& name, std::vector<char>& buffer, const Use& use) {
  check(::unzOpenCurrentFile(zip), "entry '" + name + "'");
  while (true) {
    const int got = ::unzReadCurrentFile(zip, buffer.data(), unsigned(buffer.size()));
    check(got, "entry '" + name + "'");
    if (got == 0) break;
    use(std::string_view(buffer.data(), size_t(got)));
  }
  if (::unzeof(zip) != 1) throw corrupt("entry '" + name + "' ends too early");
  check(::unzCloseCurrentFile(zip), "the checksum of entry '" + name + "'");
}

std::string read_link_target(unzFile zip, const std::string& name, std::vector<char>& buffer) {
  constexpr size_t kMaxLinkBytes = 4096;
  std::string target;
  read_content(zip, name, buffer, [&](std::string_view bytes) {
    if (target.size() + bytes.size() > kMaxLinkBytes) {
      throw corrupt("link '" + name + "' is too long");
    }
    target += bytes;
  });
  return target;
}

}  // namespace

void read_zip(const std::filesystem::path& archive, Unpacking& unpacking) {
  verify_end(archive);
  const ZipFile zip(::unzOpen64(archive.c_str()));
  if (!zip) throw corrupt("it has no directory at its end");
  unz_global_info64 info{};
  check(::unzGetGlobalInfo64(zip.get(), &info), "its directory");
  if (info.number_entry == 0) return;
  std::vector<char> buffer(size_t{1} << 18);
  int status = ::unzGoToFirstFile(zip.get());
  for (; status == UNZ_OK; status = ::unzGoToNextFile(zip.get())) {
    const Entry entry = current_entry(zip.get());
    if (entry.name.ends_with('/')) {
      unpacking.add_folder(entry.name, entry.mode | S_IFDIR);
    } else if (S_ISLNK(entry.mode)) {
      unpacking.add_symbolic_link(entry.name, read_link_target(zip.get(), entry.name, buffer));
    } else {
      unpacking.begin_file(entry.name, entry.mode);
      read_content(zip.get(), entry.name, buffer,
                   [&](std::string_view bytes) { unpacking.write(bytes); });
    }
  }
  if (status != UNZ_END_OF_LIST_OF_FILE) check(status, "its directory");
}

}  // namespace dlflow::steps
