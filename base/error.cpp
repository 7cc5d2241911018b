#include "base/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace dlflow {

void throw_errno(const std::string& what, int error_number) {
  const std::string message = what + ": " + std::strerror(error_number);
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      throw Error(Errc::NotFound, message);
    case ENOSPC:
    case EDQUOT:
      throw Error(Errc::InvalidInput, message + " (free some space, or choose another folder)");
    case EROFS:
    case EACCES:
    case EPERM:
      if (what.starts_with("cannot open ") || what.starts_with("cannot read ")) {
        throw Error(Errc::InvalidInput, message + " (ask its owner for permission to read it)");
      }
      throw Error(Errc::InvalidInput, message + " (choose a folder that you may write to)");
    default:
      throw Error(Errc::Unavailable, message);
  }
}

void throw_corrupt(const std::string& name, const std::string& reason) {
  throw Error(Errc::Corrupt, name + ": " + reason);
}

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: dlflow found a bug in itself: %s does not hold\n", file, line,
               expression);
  std::abort();
}

}  // namespace dlflow
