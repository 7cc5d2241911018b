#pragma once

#include "steps/transfer/download.h"

/// http and https, through the program curl.
namespace dlflow::steps {

/// Like download(). A version is a strong ETag.
Downloaded http_download(const DownloadRequest& request, Partial& partial,
                         const std::filesystem::path& temporary, const RetryPolicy& retry);

/// The size of the content at `address`, if the server reports it.
std::optional<uint64_t> http_size(const Address& address, const std::filesystem::path& temporary);

}  // namespace dlflow::steps
