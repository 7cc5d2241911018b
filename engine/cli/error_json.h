#pragma once

#include <string>

#include "base/json.h"

/// Errors for scripts: `--json` prints them on standard output in place of a result.
namespace dlflow {

/// {"error": {"message", "status", "diagnostics": [{"file", "line", "column", "severity",
/// "message"}]}}. `text` is the message for people; each of its lines "FILE:LINE:COLUMN: error: …"
/// becomes a diagnostic. `status` is dlflow's exit status.
Json error_json(const std::string& text, int status);

/// The diagnostics in a text, as above.
Json diagnostics_json(const std::string& text);

}  // namespace dlflow
