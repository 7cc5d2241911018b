#pragma once

#include <string>
#include <string_view>

#include "runtime/import/picture.h"

/// JPEG, by libjpeg-turbo, if dlflow was built with it.
namespace dlflow::runtime {

/// Whether it was.
bool can_read_jpeg();

/// Baseline and progressive JPEG of 8 bits, grey or in colour. Throws Error{Corrupt}, "`name`:
/// reason", for anything else, and for a damaged file, of which libjpeg would give the good part.
Picture parse_jpeg(std::string_view content, const std::string& name);

}  // namespace dlflow::runtime
