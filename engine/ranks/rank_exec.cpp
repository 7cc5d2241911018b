#include "engine/ranks/rank_exec.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "engine/ranks/rank_variables.h"

namespace dlflow {

int rank_exec(const std::filesystem::path& file, char** argv) {
  constexpr int kNoProgram = 127;  // as shells have it
  try {
    for (const auto& [name, value] : rank_variables(rank_plan_from_json(read_json_file(file)))) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    ::execvp(argv[0], argv);
    std::fprintf(stderr, "error: cannot start %s on %s: %s\n", argv[0], host_name().c_str(),
                 std::strerror(errno));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return kNoProgram;
}

}  // namespace dlflow
