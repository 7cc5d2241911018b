#pragma once

#include <nlohmann/json.hpp>
#include <string>

/// JSON values, with one type everywhere: objects keep their keys sorted, so that equal values have
/// the same dump() (the canonical form that fingerprints hash).
namespace dlflow {

using Json = nlohmann::json;

/// The text of a string, the dump of anything else.
std::string text_or_dump(const Json& json);

/// Appends json.dump(), but several times faster for the usual content of plans: integers and plain
/// text.
void append_dump(std::string& text, const Json& json);

}  // namespace dlflow
