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

/// What the image says, then who `user` is, what of `callers` ("NAME=value") tells a rank about
/// itself, and on top what the step declares.
std::map<std::string, std::string> container_environment(
    const ContainerJob& job, const std::map<std::string, std::string>& image,
    const std::vector<std::string>& callers, const std::string& user);

}  // namespace dlflow
