#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "steps/transfer/upload.h"

/// Copying within this machine's file systems.
namespace dlflow::steps {

/// Makes `to` a file with the content of `from` and returns the content's SHA-256. Keeps the part
/// of `to` that agrees with `from`. `bytes_per_second` 0: no limit. Calls `progress` with the bytes
/// so far. Throws Error and Stopped, leaving `to` in place.
std::string copy_file(const std::filesystem::path& from, const std::filesystem::path& to,
                      uint64_t bytes_per_second, const std::function<void(uint64_t)>& progress);

/// Like upload(), to a file:// address.
Uploaded local_upload(const UploadRequest& request);

}  // namespace dlflow::steps
