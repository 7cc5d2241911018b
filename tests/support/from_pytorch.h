#pragma once

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"

namespace dlflow::test {

/// What PyTorch computed: the file that $`variable` names holds what it computes on this machine;
/// without it, `kept` holds what it once did.
inline Json from_pytorch(const char* variable, const char* kept) {
  const char* just_now = std::getenv(variable);
  return Json::parse(read_file(just_now != nullptr ? just_now : kept));
}

}  // namespace dlflow::test
