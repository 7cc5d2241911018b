#pragma once

#include <string_view>

namespace dlflow {

/// The text of cluster-profiles/local.yaml, the profile that needs no file.
std::string_view local_profile();

}  // namespace dlflow
