#pragma once

#include <string>
#include <vector>

#include "steps/transfer/download.h"
#include "steps/transfer/listed_names.h"

/// hf://: repositories of models and data sets, served over HTTPS; large files have a SHA-256. The
/// server is $HF_ENDPOINT, or else the default of the hub's own tools; $HF_TOKEN is sent to no
/// other server.
namespace dlflow::steps {

/// The URL to download the file of `address` from.
std::string hub_url(const Address& address);

/// The files of `address`: a single one, all below a folder, or those that match a pattern. Throws
/// Error: NotFound if there is none, InvalidInput if the server denies access.
std::vector<RemoteFile> hub_list(const Address& address, const std::filesystem::path& temporary);

/// Like download(). The version comes from the listing.
Downloaded hub_download(const DownloadRequest& request, Partial& partial,
                        const std::filesystem::path& temporary, const RetryPolicy& retry);

}  // namespace dlflow::steps
