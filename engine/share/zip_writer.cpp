#include "engine/share/zip_writer.h"

#include <minizip/zip.h>
#include <sys/stat.h>

#include <cerrno>
#include <vector>

#include "base/archive/zip_format.h"
#include "base/error.h"
#include "base/sha256.h"

namespace dlflow {
namespace {

constexpr uLong kFirstOfJanuary1980 = 1 << 21 | 1 << 16;  // in MS-DOS format

/// From this size on, a file may need more than 32 bits: incompressible data grows a little.
constexpr uint64_t kLarge = 0xf0000000;

/// The level hardly matters: weights and pictures compress badly at any, text well at each.
constexpr int kLevel = Z_BEST_SPEED;

}  // namespace

ZipWriter::ZipWriter(const std::filesystem::path& file)
    : path_(file), zip_(::zipOpen64(file.c_str(), APPEND_STATUS_CREATE)) {
  if (zip_ == nullptr) throw_errno("cannot write " + path_.string(), errno);
}

ZipWriter::~ZipWriter() {
  if (zip_ != nullptr) ::zipClose(zip_, nullptr);
}

void ZipWriter::check(int status) const {
  if (status == ZIP_OK) return;
  throw_errno("cannot write " + path_.string(), errno == 0 ? EIO : errno);
}

void ZipWriter::begin(const std::string& name, bool executable, uint64_t bytes) {
  zip_fileinfo info{};
  info.dosDate = kFirstOfJanuary1980;
  info.external_fa = uLong(S_IFREG | (executable ? 0755 : 0644)) << 16;
  check(::zipOpenNewFileInZip4_64(zip_, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                                  Z_DEFLATED, kLevel, 0, -MAX_WBITS, DEF_MEM_LEVEL,
                                  Z_DEFAULT_STRATEGY, nullptr, 0, zip::kMadeByUnix << 8, 0,
                                  bytes >= kLarge ? 1 : 0));
}

void ZipWriter::write(std::string_view bytes) {
  check(::zipWriteInFileInZip(zip_, bytes.data(), unsigned(bytes.size())));
}

std::string ZipWriter::add(const std::string& name, bool executable, ByteSource& content,
                           uint64_t bytes) {
  begin(name, executable, bytes);
  Sha256 hash;
  std::vector<char> buffer(size_t{1} << 18);
  for (size_t got = content.read(buffer); got > 0; got = content.read(buffer)) {
    hash.update({buffer.data(), got});
    write({buffer.data(), got});
  }
  check(::zipCloseFileInZip(zip_));
  return hash.hex();
}

std::string ZipWriter::add(const std::string& name, std::string_view content) {
  begin(name, false, content.size());
  write(content);
  check(::zipCloseFileInZip(zip_));
  return sha256_hex(content);
}

void ZipWriter::close() {
  void* const zip = zip_;
  zip_ = nullptr;
  check(::zipClose(zip, nullptr));
}

}  // namespace dlflow
