#include "engine/run/detached.h"

#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/plan/run_directory.h"
#include "engine/run/local/local_run.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_run.h"

using namespace dlflow;

namespace fs = std::filesystem;

TEST_CASE("a detached process has its own session: no terminal's end reaches it", "[detached]") {
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

TEST_CASE("a run goes on in the background with its own program and the given options",
          "[detached]") {
  test::TestRun run("  a: {run: ./a}\n");
  run.created_plan(run.services());
  const fs::path program = frozen_program(run.directory);
  make_directories(program.parent_path());
  const auto said = [&](const RunOptions& options) {
    write_file_atomic(program, "#!/bin/sh\necho \"$@\"\n");
    fs::permissions(program, fs::perms::owner_all);
    fs::remove(run.directory / "engine.log");
    detach_run(run.directory, options);
    const auto log = [&] { return read_file_if_exists(run.directory / "engine.log").value_or(""); };
    while (!log().ends_with('\n')) ::usleep(1000);
    return log();
  };
  const std::string resume = "run --resume " + run.directory.string();
  CHECK(said({}) == resume + "\n");
  CHECK(said({.keep_going = true}) == resume + " --keep-going\n");
  fs::remove(program);
  CHECK_THROWS_WITH(detach_run(run.directory, {}),
                    Catch::EndsWith("; `dlflow run --resume " + run_name(run.directory) +
                                    "` runs it in this terminal"));
}

TEST_CASE("a program that cannot be started in the background is an error", "[detached]") {
  Command command;
  command.argv = {"/no/such/program"};
  CHECK_THROWS_WITH(start_detached(command), "cannot start /no/such/program");
}
