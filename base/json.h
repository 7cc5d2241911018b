#pragma once

#include <nlohmann/json.hpp>

/// JSON values, everywhere the same type: objects keep their keys sorted, so that dump() of equal
/// values is the same text (the canonical form that fingerprints hash).
namespace dlflow {

using Json = nlohmann::json;

}  // namespace dlflow
