#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/container/container_job.h"

/// The environment of a program in a container: the same under every runtime.
namespace dlflow {

/// The caller's name, from the program `id`, since a static program cannot query LDAP and the like.
/// If that fails, $USER or the user's number.
std::string user_name();

/// Adds the entries of `callers` ("NAME=value") that give a rank its place, except existing names.
void add_passed_on(std::map<std::string, std::string>& environment,
                   const std::vector<std::string>& callers);

/// Adds the variables of a rank of `plan`, and removes those that would mislead it.
void add_rank(std::map<std::string, std::string>& environment, const RankPlan& plan);

/// The image's variables, then the identity of `user`, the entries of `callers` ("NAME=value") that
/// give a rank its place, and finally the step's own.
std::map<std::string, std::string> container_environment(
    const ContainerJob& job, const std::map<std::string, std::string>& image,
    const std::vector<std::string>& callers, const std::string& user);

}  // namespace dlflow
