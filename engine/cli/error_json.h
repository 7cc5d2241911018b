#pragma once

#include <string>

#include "base/json.h"

/// Errors for scripts: what `--json` prints on standard output in place of a result.
namespace dlflow {

/// {"error": {"message", "status", "diagnostics": [{"file", "line", "column", "severity",
/// "message"}]}}. `text` is what people were shown; each line "FILE:LINE:COLUMN: error: …" of it is
/// a diagnostic. `status` is dlflow's exit status.
Json error_json(const std::string& text, int status);

/// The diagnostics in a text, see above.
Json diagnostics_json(const std::string& text);

}  // namespace dlflow
