#pragma once

#include <cstddef>

/// The limit on files, and so on connections, that this process may have open at a time.
namespace dlflow {

/// Raises the limit to `wanted`, or to the user's maximum (the hard limit) if that is less. Never
/// lowers it.
void allow_open_files(size_t wanted);

/// Throws the Error, which names the limit, for a call that failed with EMFILE or ENFILE.
[[noreturn]] void throw_too_many_open_files();

}  // namespace dlflow
