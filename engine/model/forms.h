#pragma once

#include <optional>
#include <string_view>

#include "engine/model/shape.h"
#include "engine/model/workflow.h"

/// The forms of text in YAML files, and parsers of them.
namespace dlflow {

extern const Form kNameForm;       ///< names of steps, parameters, axes, images, outputs, metrics
extern const Form kKeyForm;        ///< keys of an object inside a parameter: any text
extern const Form kVariableForm;   ///< names of environment variables
extern const Form kInheritedForm;  ///< the same, or a prefix of them: X_*
extern const Form kEnvForm;        ///< variables that a step sets itself: not DLFLOW_…
extern const Form kMailForm;       ///< mail addresses
extern const Form kSecretForm;     ///< environment variables that may hold a secret
extern const Form kModuleForm;     ///< environment modules: cuda/12.2
extern const Form kLicenceForm;    ///< licences, as batch systems name them: matlab, matlab@server
extern const Form kDurationForm;
extern const Form kSizeForm;
extern const Form kMemoryForm;  ///< at least 1 MiB: smaller sizes lack a unit
extern const Form kLineForm;    ///< one line without control characters
extern const Form kPathForm;    ///< any text that is not empty
extern const Form kAbsolutePathForm;
extern const Form kDataPathForm;   ///< the absolute path of an input
extern const Form kInnerPathForm;  ///< a relative path that never leaves its folder
extern const Form kModelFileForm;  ///< the path of an existing file
extern const Form kInputForm;      ///< the inner path of an existing file or folder
extern const Form kFileNameForm;
extern const Form kUrlForm;          ///< the URL of a source
extern const Form kDestinationForm;  ///< a URL that can be written to
extern const Form kCommitForm;       ///< a git commit
extern const Form kSha256Form;
extern const Form kSelectionForm;  ///< "max accuracy", "min loss", "latest"
extern const Form kImageSourceForm;
extern const Form kDigestForm;
extern const Form kIntervalForm;     ///< checkpoint.every
extern const Form kPatternForm;      ///< a shell pattern of file names: "ckpt/*.pt"
extern const Form kRequirementForm;  ///< ">= 0.88"

/// Parses "1 epoch", "200 steps" or "30m"; returns nothing if `text` has another form.
std::optional<CheckpointPolicy> parse_interval(std::string_view text);

/// Parses ">= 0.88"; returns nothing if `text` has another form.
std::optional<Requirement> parse_requirement(std::string_view text);

}  // namespace dlflow
