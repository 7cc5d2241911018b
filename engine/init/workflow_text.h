#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/init/init.h"

/// Parts of the text of a workflow.
namespace dlflow {

/// "my train" -> "my-train": a name for a workflow or a step. A word that YAML takes for something
/// else than text gets a prefix.
std::string as_name(const std::string& text);

std::string yaml_quote(const std::string& text);

/// Quoted only if it is not plainly the name of a program.
std::string yaml_word(const std::string& word);

/// The first lines of a workflow.
std::string head_of_workflow(const std::string& name);

/// "    inputs:" and a line each, or nothing.
std::string yaml_inputs(const std::vector<std::string>& inputs);

/// `path` as the workflow `file` names it: relative to its folder if it lies below, else absolute.
std::string named_by_workflow(const std::filesystem::path& path, const std::filesystem::path& file);

/// The same for a script, which has to lie below that folder. Throws Error{InvalidInput} if it does
/// not.
std::string script_of_workflow(const InitRequest& request);

}  // namespace dlflow
