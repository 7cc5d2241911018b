#pragma once

#include <string>
#include <string_view>

#include "runtime/import/picture.h"

namespace dlflow::runtime {

/// A PNG file of 16 bits a value, as it lies in the file: no gamma is applied. Throws
/// Error{Corrupt}, "`name`: reason".
Picture parse_wide_png(std::string_view content, const std::string& name);

}  // namespace dlflow::runtime
