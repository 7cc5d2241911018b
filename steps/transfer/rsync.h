#pragma once

#include <vector>

#include "steps/transfer/download.h"
#include "steps/transfer/partial.h"
#include "steps/transfer/upload.h"

/// ssh:// addresses, through rsync over ssh. Nothing asks for a password. $RSYNC_RSH, rsync's own
/// variable, is what is called instead of ssh.
namespace dlflow::steps {

/// The files that `address` names, in the order of names. Throws Error{NotFound} if there are none.
std::vector<RemoteFile> rsync_list(const Address& address, const std::filesystem::path& temporary);

/// Whether rsync's checksum of what is at the address is that of `known_file`.
bool rsync_has_known_content(const DownloadRequest& request,
                             const std::filesystem::path& temporary);

/// As download(). rsync continues a part by comparing it with the whole, so no join can be wrong.
Downloaded rsync_download(const DownloadRequest& request, const Partial& partial,
                          const std::filesystem::path& temporary, const RetryPolicy& retry);

/// As upload(). What an earlier one left on the other side is continued in the same way.
Uploaded rsync_upload(const UploadRequest& request, const std::filesystem::path& temporary);

}  // namespace dlflow::steps
