#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

/// The line of a program's standard error that shows people why it failed.
namespace dlflow {

/// At most 300 bytes; empty if there is none. In this order:
/// - the last line that begins with "error", which is how dlflow's own programs say it;
/// - what its loader says of missing libraries, with what to do;
/// - the program's own last error: the last line of a Python traceback with the place in the user's
///   file ("KeyError: 'lr' (train.py:5)"), a line "Error…", what() of a C++ exception, an error
///   of MPI. An error that only follows from the end of another rank ("Connection reset by peer")
///   counts if there is no other;
/// - the last line.
/// What mpirun, srun and torchrun add once a rank has ended is left out before.
std::string telling_line_of(std::string_view text);

/// The same for a file. Bytes before `from` belong to earlier passes.
std::string telling_line(const std::filesystem::path& standard_error, uint64_t from = 0);

/// The end of `file` behind its first `from` bytes: at most `most` bytes, by default enough for the
/// tracebacks of a hundred ranks.
std::string end_of_output(const std::filesystem::path& file, uint64_t from,
                          int64_t most = 256 << 10);

/// Whether the line is about an error of the program.
bool has_error(const std::filesystem::path& standard_error, uint64_t from);

}  // namespace dlflow
