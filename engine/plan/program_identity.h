#pragma once

#include <string>

#include "engine/plan/fingerprint.h"

namespace dlflow {

/// The program that `name` means where PATH is `path`: its own path and the SHA-256 of its content,
/// or "not found". Throws Error.
std::string program_identity(const std::string& name, const std::string& path, FileHashes& hashes);

/// Why nobody knows which program `name` will be, where lines run before it.
std::string unknown_program(const std::string& name);

}  // namespace dlflow
