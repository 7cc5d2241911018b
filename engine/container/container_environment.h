#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/container/container_job.h"

/// The environment of a program in a container: the same under every runtime.
namespace dlflow {

/// The caller's name, by `id`: a static program cannot ask LDAP and its like itself. $USER, or the
/// user's number, where that fails.
std::string user_name();

/// Adds what of `callers` ("NAME=value") tells a rank about itself, but for names that are there.
void add_passed_on(std::map<std::string, std::string>& environment,
                   const std::vector<std::string>& callers);

/// Adds what a rank of `plan` is told, and removes what would mislead it.
void add_rank(std::map<std::string, std::string>& environment, const RankPlan& plan);

/// What the image says, then who `user` is, what of `callers` ("NAME=value") tells a rank about
/// itself, and on top what the step declares.
std::map<std::string, std::string> container_environment(
    const ContainerJob& job, const std::map<std::string, std::string>& image,
    const std::vector<std::string>& callers, const std::string& user);

}  // namespace dlflow
