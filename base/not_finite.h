#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

/// Numbers that JSON lacks but programs write: Python's json writes NaN, Infinity and -Infinity.
/// Here they are strings with these names.
namespace dlflow {

/// `json` with quotes around these words, where they are values.
std::string quote_not_finite(std::string_view json);

/// The value of a number, or of one of these strings; nothing for anything else.
std::optional<double> number_of(const Json& value);

/// The finite number under `key` in `object`; nothing for anything else.
std::optional<double> number_at(const Json& object, const std::string& key);

/// Whether a number may be the best of several: NaN and infinity never are. All code that chooses a
/// best value calls this.
bool can_be_best(double value);

/// The number in `value`, if it can be the best of several.
std::optional<double> comparable(const Json& value);

}  // namespace dlflow
