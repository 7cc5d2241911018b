#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dlflow {

/// Whether a job gets the variable `name` of whoever calls dlflow (on SLURM: of the job): what is
/// needed to find programs, libraries, devices and the network, and what `further` (`inherit:` of
/// the profile) adds. Nothing else, so that the same job does not differ from one shell to the
/// next. The list is in docs/user/workflow-format.md.
bool is_inherited(std::string_view name, const std::vector<std::string>& further = {});

/// The variables of this process that `patterns` name: X, X_* or *_X.
std::map<std::string, std::string> variables_of(const std::vector<std::string>& patterns);

/// Those that a job with `further` gets.
std::map<std::string, std::string> inherited_variables(const std::vector<std::string>& further);

}  // namespace dlflow
