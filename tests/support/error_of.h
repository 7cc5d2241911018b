#pragma once

#include <string>

#include "base/error.h"

namespace dlflow::test {

/// What an Error of `work` says, or "none".
template <typename Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace dlflow::test
