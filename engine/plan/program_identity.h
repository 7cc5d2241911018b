#pragma once

#include <string>

#include "engine/plan/fingerprint.h"

namespace dlflow {

/// The program that `name` means where PATH is `path`: its own path and the SHA-256 of its content,
/// or "not found". Throws Error.
std::string program_identity(const std::string& name, const std::string& path, FileHashes& hashes);

}  // namespace dlflow
