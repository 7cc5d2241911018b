#include "steps/transfer/upload.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "steps/transfer/limits.h"
#include "steps/transfer/local.h"
#include "steps/transfer/rclone.h"
#include "steps/transfer/rsync.h"

namespace dlflow::steps {
namespace {

Uploaded upload_once(const UploadRequest& request, const std::filesystem::path& temporary) {
  switch (request.address.scheme) {
    case Scheme::File:
      return local_upload(request);
    case Scheme::Ssh:
      return rsync_upload(request, temporary);
    case Scheme::Rclone:
      return rclone_upload(request, temporary);
    case Scheme::Http:
    case Scheme::Git:
    case Scheme::Hub:
      break;
  }
  throw Error(
      Errc::InvalidInput,
      request.address.display() +
          ": files can only be sent to file://, ssh://, rclone://, s3:// and gs:// addresses");
}

}  // namespace

bool can_rename(const Address& address, const std::filesystem::path& temporary) {
  return address.scheme != Scheme::Rclone || rclone_can_rename(address, temporary);
}

Uploaded upload(const UploadRequest& request, const std::filesystem::path& temporary,
                const RetryPolicy& retry) {
  uint64_t most_bytes = 0;  // an increase shows progress beyond all earlier tries
  UploadRequest watched = request;
  watched.progress = [&](uint64_t bytes) {
    bytes = std::min(bytes, request.bytes);
    most_bytes = std::max(most_bytes, bytes);
    request.progress(bytes);
  };
  Uploaded uploaded{};
  const auto begin = std::chrono::steady_clock::now();
  with_retries(
      retry, [&] { return most_bytes; }, [&] { uploaded = upload_once(watched, temporary); });
  if (uploaded == Uploaded::Sent) keep_pace(begin, request.bytes, request.bytes_per_second);
  return uploaded;
}

}  // namespace dlflow::steps
