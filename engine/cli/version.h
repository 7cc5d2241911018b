#pragma once

#include <string>

namespace dlflow {

/// The text of `dlflow --version`; `as_json`: also the build, the libraries that are part of it and
/// the binary interfaces between its programs. The fields are in docs/user/json.md.
std::string version_text(bool as_json);

}  // namespace dlflow
