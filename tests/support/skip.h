#pragma once

#include <cstdio>
#include <string>

namespace dlflow::test {

/// Reports that this machine cannot run a test case, which must then return: ctest reports it as
/// skipped. (Catch2 has this from version 3.3 on.)
inline void skip(const std::string& reason) {
  std::printf("skipped here: %s\n", reason.c_str());
  std::fflush(stdout);
}

}  // namespace dlflow::test
