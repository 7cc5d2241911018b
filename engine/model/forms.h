#pragma once

#include <optional>
#include <string_view>

#include "engine/model/shape.h"
#include "engine/model/workflow.h"

/// Text of certain forms that YAML files hold, and what it means.
namespace dlflow {

const Form& name_form();       ///< of steps, parameters, axes, images, outputs, metrics
const Form& key_form();        ///< of an object inside a parameter: any text
const Form& variable_form();   ///< of environment variables
const Form& inherited_form();  ///< the same, or how their names begin: X_*
const Form& env_form();        ///< of those that a step sets itself: not DLFLOW_…
const Form& mail_form();       ///< of addresses
const Form& secret_form();     ///< of environment variables that may hold a secret
const Form& module_form();     ///< of an environment module: cuda/12.2
const Form& licence_form();    ///< of a licence, as batch systems name it: matlab, matlab@server
const Form& duration_form();
const Form& size_form();
const Form& memory_form();  ///< a size that no unit was forgotten in: at least 1 MiB
const Form& path_form();    ///< any text but the empty one
const Form& absolute_path_form();
const Form& inner_path_form();  ///< relative, and nowhere leading out of its folder
const Form& model_file_form();  ///< a path to a file that is there
const Form& input_form();       ///< an inner path to what is there
const Form& file_name_form();
const Form& url_form();          ///< where a source is
const Form& destination_form();  ///< a URL that can be written to
const Form& commit_form();       ///< of git
const Form& sha256_form();
const Form& selection_form();  ///< "max accuracy", "min loss", "latest"
const Form& image_source_form();
const Form& digest_form();
const Form& interval_form();     ///< checkpoint.every
const Form& pattern_form();      ///< of file names, as a shell has it: "ckpt/*.pt"
const Form& requirement_form();  ///< ">= 0.88"

/// Unit and every, of "1 epoch", "200 steps" or "30m"; nothing if `text` is none of these.
std::optional<CheckpointPolicy> parse_interval(std::string_view text);

/// comparison and bound, of ">= 0.88"; nothing if `text` is no such thing.
std::optional<Requirement> parse_requirement(std::string_view text);

}  // namespace dlflow
