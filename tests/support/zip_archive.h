#pragma once

#include <minizip/zip.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace dlflow::test {

/// One entry of a ZIP archive; `mode` includes the file type, as Unix stores it.
struct Packed {
  std::string name;
  std::string content = {};
  unsigned mode = S_IFREG | 0644;
  int method = Z_DEFLATED;
  unsigned flags = 0;
};

inline void write_zip(const std::filesystem::path& path, const std::vector<Packed>& entries) {
  zipFile zip = ::zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  DLFLOW_CHECK(zip != nullptr);
  for (const Packed& entry : entries) {
    zip_fileinfo info{};
    info.external_fa = uLong(entry.mode) << 16;
    constexpr uLong kMadeByUnix = 3 << 8;
    DLFLOW_CHECK(::zipOpenNewFileInZip4_64(zip, entry.name.c_str(), &info, nullptr, 0, nullptr, 0,
                                           nullptr, entry.method, 1, 0, -MAX_WBITS, DEF_MEM_LEVEL,
                                           Z_DEFAULT_STRATEGY, nullptr, 0, kMadeByUnix, entry.flags,
                                           0) == ZIP_OK);
    DLFLOW_CHECK(::zipWriteInFileInZip(zip, entry.content.data(), unsigned(entry.content.size())) ==
                 ZIP_OK);
    DLFLOW_CHECK(::zipCloseFileInZip(zip) == ZIP_OK);
  }
  DLFLOW_CHECK(::zipClose(zip, nullptr) == ZIP_OK);
}

}  // namespace dlflow::test
