#pragma once

#include <string>
#include <vector>

#include "steps/transfer/download.h"
#include "steps/transfer/partial.h"
#include "steps/transfer/remote_file.h"

/// hf://: repositories of models and data sets that are served over HTTPS, large files with their
/// SHA-256. The server is $HF_ENDPOINT, or else the one that its own tools take; $HF_TOKEN is sent
/// to it alone.
namespace dlflow::steps {

/// Where the file that `address` names is downloaded from.
std::string hub_url(const Address& address);

/// The files that `address` names: one, those of a folder with all below it, or those that match.
/// Throws Error: NotFound if there is none, InvalidInput if the server does not allow it.
std::vector<RemoteFile> hub_list(const Address& address, const std::filesystem::path& temporary);

/// As download(). The version is the one of the listing.
Downloaded hub_download(const DownloadRequest& request, Partial& partial,
                        const std::filesystem::path& temporary, const RetryPolicy& retry);

}  // namespace dlflow::steps
