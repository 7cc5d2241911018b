#pragma once

#include <string>

#include "base/error.h"
#include "tests/support/catch.h"

namespace dlflow::test {

/// The message of the Error that `work` throws; empty if it throws none.
template <typename Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The same for an Error that must have `code`.
template <typename Work>
std::string error_of(Work work, Errc code) {
  return error_of([&] {
    try {
      work();
    } catch (const Error& error) {
      CHECK(error.code() == code);
      throw;
    }
  });
}

}  // namespace dlflow::test
