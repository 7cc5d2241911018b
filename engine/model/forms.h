#pragma once

#include <optional>
#include <string_view>

#include "engine/model/shape.h"
#include "engine/model/workflow.h"

/// Text of certain forms that YAML files hold, and what it means.
namespace dlflow {

extern const Form kNameForm;       ///< of steps, parameters, axes, images, outputs, metrics
extern const Form kKeyForm;        ///< of an object inside a parameter: any text
extern const Form kVariableForm;   ///< of environment variables
extern const Form kInheritedForm;  ///< the same, or how their names begin: X_*
extern const Form kEnvForm;        ///< of those that a step sets itself: not DLFLOW_…
extern const Form kMailForm;       ///< of addresses
extern const Form kSecretForm;     ///< of environment variables that may hold a secret
extern const Form kModuleForm;     ///< of an environment module: cuda/12.2
extern const Form kLicenceForm;  ///< of a licence, as batch systems name it: matlab, matlab@server
extern const Form kDurationForm;
extern const Form kSizeForm;
extern const Form kMemoryForm;  ///< a size that no unit was forgotten in: at least 1 MiB
extern const Form kPathForm;    ///< any text but the empty one
extern const Form kAbsolutePathForm;
extern const Form kDataPathForm;   ///< an absolute path of an input
extern const Form kInnerPathForm;  ///< relative, and nowhere leading out of its folder
extern const Form kModelFileForm;  ///< a path to a file that is there
extern const Form kInputForm;      ///< an inner path to what is there
extern const Form kFileNameForm;
extern const Form kUrlForm;          ///< where a source is
extern const Form kDestinationForm;  ///< a URL that can be written to
extern const Form kCommitForm;       ///< of git
extern const Form kSha256Form;
extern const Form kSelectionForm;  ///< "max accuracy", "min loss", "latest"
extern const Form kImageSourceForm;
extern const Form kDigestForm;
extern const Form kIntervalForm;     ///< checkpoint.every
extern const Form kPatternForm;      ///< of file names, as a shell has it: "ckpt/*.pt"
extern const Form kRequirementForm;  ///< ">= 0.88"

/// Unit and every, of "1 epoch", "200 steps" or "30m"; nothing if `text` is none of these.
std::optional<CheckpointPolicy> parse_interval(std::string_view text);

/// comparison and bound, of ">= 0.88"; nothing if `text` is no such thing.
std::optional<Requirement> parse_requirement(std::string_view text);

}  // namespace dlflow
