#pragma once

#include <string>
#include <string_view>

/// Digests of images and of their parts: "sha256:" and 64 lower-case hexadecimal digits. They
/// become names of files, so any other text is refused, whatever its source.
namespace dlflow {

bool is_digest(std::string_view text);

/// Returns `digest`. Throws Error{Corrupt} naming `source` if it is not a digest.
std::string checked_digest(std::string digest, const std::string& source);

/// The 64 digits of a digest. Validates it again, since the digits become a path.
std::string digest_hex(const std::string& digest);

}  // namespace dlflow
