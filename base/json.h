#pragma once

#include <nlohmann/json.hpp>
#include <string>

/// JSON values, everywhere the same type: objects keep their keys sorted, so that dump() of equal
/// values is the same text (the canonical form that fingerprints hash).
namespace dlflow {

using Json = nlohmann::json;

/// The text of a string, the dump of anything else.
std::string text_or_dump(const Json& json);

/// Appends json.dump(), several times as fast for the usual content of plans: whole numbers and
/// plain text.
void append_dump(std::string& text, const Json& json);

}  // namespace dlflow
