#include "engine/run/detached.h"

#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace fs = std::filesystem;

TEST_CASE("what is started aside has a session of its own: no terminal's end reaches it",
          "[detached]") {
  const test::TempDir folder;
  Command command;
  command.argv = {"/bin/sh", "-c", "cat /proc/$$/stat >stat.new; mv stat.new stat"};
  command.environment = current_environment();
  command.directory = folder.path();
  start_detached(command);
  while (!fs::exists(folder.path() / "stat")) ::usleep(1000);
  const std::vector<std::string> fields = split(read_file(folder.path() / "stat"), ' ');
  REQUIRE(fields.size() > 5);
  CHECK(fields[5] != std::to_string(::getsid(0)));
}

TEST_CASE("a program that cannot be started aside is an error", "[detached]") {
  Command command;
  command.argv = {"/no/such/program"};
  CHECK_THROWS_WITH(start_detached(command), "cannot start /no/such/program");
}
