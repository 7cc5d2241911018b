#pragma once

#include <string>

/// JSON Schemas (draft 2020-12) for editors, made from the shapes that the parsers check.
namespace dlflow {

/// The schema of workflow files. It does not cover rules that depend on several values (references,
/// cycles).
std::string workflow_schema();

/// The schema of profiles.
std::string profile_schema();

}  // namespace dlflow
