#pragma once

#include <string>

namespace dlflow {

/// The text of `dlflow --version`. With `as_json` it also lists the build, the linked libraries and
/// the binary interfaces between the programs. docs/user/json.md describes the fields.
std::string version_text(bool as_json);

}  // namespace dlflow
