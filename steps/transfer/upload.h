#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "steps/transfer/address.h"
#include "steps/transfer/retry.h"

/// From a file here to another place.
namespace dlflow::steps {

struct UploadRequest {
  std::filesystem::path file;
  std::string sha256;  ///< of its content
  uint64_t bytes = 0;
  Address address;                               ///< of one file, over file, ssh or rclone
  bool can_rename = true;                        ///< what can_rename() says of the address
  uint64_t bytes_per_second = 0;                 ///< 0: no limit
  std::function<void(uint64_t bytes)> progress;  ///< called every 20 ms with what was sent so far
};

/// Whether a file at `address` can be given its name once it is whole. Where it cannot (object
/// stores), a file appears whole anyway. Throws Error if the place cannot be asked.
bool can_rename(const Address& address, const std::filesystem::path& temporary);

enum class Uploaded { Sent, AlreadyThere };

/// Makes the file at `request.address` one with this content, unless it is. It appears there whole,
/// where the place can rename; afterwards its content is compared as far as the place can tell.
/// `temporary` begins the names of files that may be used here. Throws Error with the tool's
/// reason, and Stopped; the next call goes on where this one ended, as far as the place lets it.
Uploaded upload(const UploadRequest& request, const std::filesystem::path& temporary,
                const RetryPolicy& retry);

}  // namespace dlflow::steps
