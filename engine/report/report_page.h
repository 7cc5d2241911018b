#pragma once

#include <string>

#include "base/json.h"

/// The page of `dlflow report`: one HTML file that is complete in itself.
namespace dlflow {

/// The page with this content. It loads nothing, and its content security policy names by their
/// hashes the one script and the one style sheet that count: what is in `data` never becomes markup
/// or code (P12).
/// Throws Error{NotFound} if this dlflow was built without the library that draws curves, saying
/// which package is missing.
std::string report_page(const Json& data);

}  // namespace dlflow
