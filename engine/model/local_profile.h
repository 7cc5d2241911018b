#pragma once

#include <string_view>

namespace dlflow {

/// The text of cluster-profiles/local.yaml, the profile that needs no file.
extern const std::string_view kLocalProfile;

}  // namespace dlflow
