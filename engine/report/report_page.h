#pragma once

#include <string>

#include "base/json.h"

/// The page of `dlflow report`: one self-contained HTML file.
namespace dlflow {

/// Returns the page with this content. It loads nothing. Its content security policy allows one
/// script and one style sheet by their hashes, so `data` never becomes markup or code (P12). Throws
/// Error{NotFound} if this dlflow was built without the chart library; the message names the
/// missing package.
std::string report_page(const Json& data);

}  // namespace dlflow
