#pragma once

#include <string>

namespace dlflow {

/// The JSON Schema (draft 2020-12) of workflow files, for editors: made of the same shapes that the
/// parser checks. What depends on several values together (references, cycles) it cannot say.
std::string json_schema();

}  // namespace dlflow
