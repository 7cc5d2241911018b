#pragma once

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"

namespace dlflow::test {

/// PyTorch's results: from the file in $`variable`, computed on this machine; without it, the
/// stored results `kept`.
inline Json from_pytorch(const char* variable, const char* kept) {
  const char* just_now = std::getenv(variable);
  return Json::parse(read_file(just_now != nullptr ? just_now : kept));
}

}  // namespace dlflow::test
