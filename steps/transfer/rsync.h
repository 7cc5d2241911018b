#pragma once

#include <vector>

#include "steps/transfer/download.h"
#include "steps/transfer/upload.h"

/// ssh:// addresses, through rsync over ssh, without password prompts. $RSYNC_RSH, rsync's own
/// variable, replaces ssh.
namespace dlflow::steps {

/// The files of `address`, sorted by name. Throws Error{NotFound} if there are none.
std::vector<RemoteFile> rsync_list(const Address& address, const std::filesystem::path& temporary);

/// Whether the content at the address and `known_file` have the same rsync checksum.
bool rsync_has_known_content(const DownloadRequest& request,
                             const std::filesystem::path& temporary);

/// Like download(). rsync compares a part with the whole before it continues, so no join is wrong.
Downloaded rsync_download(const DownloadRequest& request, const Partial& partial,
                          const std::filesystem::path& temporary, const RetryPolicy& retry);

/// Like upload(). Continues an earlier upload's part on the other side in the same way.
Uploaded rsync_upload(const UploadRequest& request, const std::filesystem::path& temporary);

}  // namespace dlflow::steps
