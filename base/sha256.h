#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

/// SHA-256, from libcrypto (its assembly uses the CPU's SHA instructions: about 1.5 GB/s).
namespace dlflow {

class Sha256 {
 public:
  Sha256();
  Sha256& update(std::string_view bytes);

  /// 64 lower-case hexadecimal digits. The object cannot be updated afterwards.
  std::string hex();

 private:
  std::array<uint32_t, 28> state_{};  // an SHA256_CTX, kept out of this header
};

std::string sha256_hex(std::string_view bytes);

/// The hash of the file's content. Calls `progress`, if given, with the number of bytes hashed so
/// far. Throws Error.
std::string sha256_file(const std::filesystem::path& path,
                        const std::function<void(uint64_t)>& progress = {});

}  // namespace dlflow
