#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "steps/transfer/address.h"
#include "steps/transfer/limits.h"

/// Uploads of a local file to another place.
namespace dlflow::steps {

struct UploadRequest {
  std::filesystem::path file;
  std::string sha256;  ///< of its content
  uint64_t bytes = 0;
  Address address;                               ///< of one file, with scheme File, Ssh or Rclone
  bool can_rename = true;                        ///< can_rename() of the address
  uint64_t bytes_per_second = 0;                 ///< 0: no limit
  std::function<void(uint64_t bytes)> progress;  ///< called every 20 ms with the bytes so far
};

/// Whether a complete file at `address` can be renamed. Object stores cannot rename, but show only
/// complete files anyway. Throws Error if the place does not answer.
bool can_rename(const Address& address, const std::filesystem::path& temporary);

enum class Uploaded { Sent, AlreadyThere };

/// Gives the file at `request.address` this content unless it has it. The file appears only when
/// complete, if the place can rename; its content is then verified as far as the place supports.
/// `temporary` is a prefix for names of local temporary files. Throws Error with the tool's reason,
/// and Stopped; the next call continues from there if the place supports it.
Uploaded upload(const UploadRequest& request, const std::filesystem::path& temporary,
                const RetryPolicy& retry);

}  // namespace dlflow::steps
