#pragma once

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"

namespace dlflow::test {

/// Results of PyTorch: from the file that $`variable` names, computed on this machine; otherwise
/// `kept`, computed earlier.
inline Json from_pytorch(const char* variable, const char* kept) {
  const char* just_now = std::getenv(variable);
  return Json::parse(read_file(just_now != nullptr ? just_now : kept));
}

}  // namespace dlflow::test
