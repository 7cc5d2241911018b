#pragma once

#include <string>

/// JSON Schemas (draft 2020-12) for editors, made of the same shapes that the parsers check.
namespace dlflow {

/// Of workflow files. It does not express what depends on several values together (references,
/// cycles).
std::string workflow_schema();

/// Of profiles.
std::string profile_schema();

}  // namespace dlflow
