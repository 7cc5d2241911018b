#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dlflow {

/// Whether a job gets the variable `name` of whoever calls dlflow (on SLURM: of the job): what is
/// needed to find programs, libraries, devices and the network, and what `further` (`inherit:` of
/// the profile) adds. Nothing else, so that the same job does not differ from one shell to the
/// next: so it has no language and no time zone. The list is in docs/user/workflow-format.md.
bool is_inherited(std::string_view name, const std::vector<std::string>& further = {});

/// The variables that it gets because of `further` alone, and that `text` mentions by name or that
/// every program reads (LANG, TZ).
std::set<std::string> added_readings(std::string_view text,
                                     const std::vector<std::string>& further);

/// The variables of this process that `patterns` name: X, X_* or *_X.
std::map<std::string, std::string> variables_of(const std::vector<std::string>& patterns);

/// The SHA-256 of what the variable is in this process; the value itself may be a token. Of one
/// that is not set as of an empty one.
std::string identity_of_variable(const std::string& name);

/// Those that a job with `further` gets.
std::map<std::string, std::string> inherited_variables(const std::vector<std::string>& further);

}  // namespace dlflow
