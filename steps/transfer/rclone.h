#pragma once

#include <vector>

#include "steps/transfer/download.h"
#include "steps/transfer/upload.h"

/// rclone:// addresses: the remotes of the user's rclone.conf.
namespace dlflow::steps {

/// The files of `address`, sorted by name. Throws Error{NotFound} if there are none.
std::vector<RemoteFile> rclone_list(const Address& address, const std::filesystem::path& temporary);

/// Whether the remote has a hash of the content at the address that matches `known_file`.
bool rclone_has_known_content(const DownloadRequest& request,
                              const std::filesystem::path& temporary);

/// Like download().
Downloaded rclone_download(const DownloadRequest& request, Partial& partial,
                           const std::filesystem::path& temporary, const RetryPolicy& retry);

/// Like can_rename().
bool rclone_can_rename(const Address& address, const std::filesystem::path& temporary);

/// Like upload(). Always sends the whole file, since rclone cannot continue.
Uploaded rclone_upload(const UploadRequest& request, const std::filesystem::path& temporary);

}  // namespace dlflow::steps
