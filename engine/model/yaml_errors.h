#pragma once

#include <string>
#include <string_view>

#include "engine/model/mistakes.h"

/// Messages of yaml-cpp about text that is no YAML, in words that help.
namespace dlflow {

/// Adds the mistake that made yaml-cpp stop at `offset` with `message`.
void add_syntax_error(Mistakes& mistakes, size_t offset, const std::string& message);

/// Whether the quoted scalar at `offset` (its properties, such as an anchor, may come first) lacks
/// its closing quote.
bool has_unclosed_quote(std::string_view text, size_t offset);

}  // namespace dlflow
