#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

/// Numbers that JSON does not have, and that programs write all the same: Python's json makes NaN,
/// Infinity and -Infinity of them. Here they are texts of that name.
namespace dlflow {

/// `json` with quotes around these words, where they stand for values.
std::string quote_not_finite(std::string_view json);

/// The value of a number, or of one of these texts; nothing for anything else.
std::optional<double> number_of(const Json& value);

}  // namespace dlflow
