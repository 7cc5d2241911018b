#pragma once

#include <stdexcept>
#include <string>

/// Errors: one exception type, and a check that finds bugs.
namespace dlflow {

/// The kind of an error; decides the exit status and whether a retry may help.
enum class Errc {
  InvalidInput,  ///< unusable input of the user
  NotFound,      ///< a file, a run or a program does not exist
  Unavailable,   ///< the same call may succeed later: a busy database, a scheduler that restarts
  Corrupt,       ///< data on disk differs from the data that was written
};

/// The one exception dlflow throws. `what()` is a sentence the user can act on: where (file:line,
/// job, rank), what failed, and the cause in the words of the library that reported it.
class Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& message) : std::runtime_error(message), code_(code) {}

  Errc code() const noexcept { return code_; }

  /// The same call may succeed later.
  bool retryable() const noexcept { return code_ == Errc::Unavailable; }

 private:
  Errc code_;
};

/// Throws Error{code of `error_number`} with "`what`: strerror": NotFound for ENOENT, InvalidInput
/// for a full disk, a read-only file system or missing permission, Unavailable for the rest.
[[noreturn]] void throw_errno(const std::string& what, int error_number);

/// Throws Error{Corrupt}, "`name`: reason".
[[noreturn]] void throw_corrupt(const std::string& name, const std::string& reason);

[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace dlflow

/// Guards an invariant, in release too: prints the expression and aborts. For bugs, never for
/// input.
#define DLFLOW_CHECK(expression) \
  ((expression) ? void(0) : ::dlflow::check_failed(#expression, __FILE__, __LINE__))
