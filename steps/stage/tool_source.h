#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/archive/byte_source.h"

/// Compressed files that programs of the system unpack.
namespace dlflow::steps {

/// A program that unpacks its standard input to its standard output, within 1 GiB of memory.
struct Unpacker {
  std::string format;  ///< "xz"
  std::vector<std::string> argv;
};

/// By the first bytes of `packed`: of xz, bzip2 or zstd; else nothing.
std::optional<Unpacker> unpacker_of(const std::filesystem::path& packed);

/// What `packed` holds. Throws Error{NotFound} if there is no such program, and Error{Corrupt} in
/// its own words from read(), at the end at the latest, where the file is damaged. The program ends
/// with this object.
std::unique_ptr<ByteSource> open_unpacked(const std::filesystem::path& packed,
                                          const Unpacker& unpacker);

}  // namespace dlflow::steps
