#include "steps/transfer/tool.h"

#include "base/file.h"
#include "steps/transfer/stop_signal.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::steps;
using Catch::Contains;

TEST_CASE("a tool's output, messages and exit status are kept apart", "[tool]") {
  const test::TempDir folder;
  const ToolResult result = run_tool({.argv = {"sh", "-c", "echo out; echo $X >&2; exit 3"},
                                      .temporary = folder.path() / "t",
                                      .environment = {"X=err"}});
  CHECK(result.output == "out\n");
  CHECK(result.message == "err");
  CHECK(result.exit_status == 3);
}

TEST_CASE("a missing tool is named with what to do", "[tool]") {
  const test::TempDir folder;
  CHECK_THROWS_WITH(
      run_tool({.argv = {"no-such-tool"}, .temporary = folder.path() / "t"}),
      Contains("'no-such-tool' is needed, but it is not in PATH; install it, or load"));
}

TEST_CASE("a tool and its processes end when its watcher throws", "[tool]") {
  const test::TempDir folder;
  const auto watch = [](const ToolResult& so_far) {
    if (so_far.output == "begun\n") throw Stopped{};
  };
  CHECK_THROWS_AS(run_tool({.argv = {"sh", "-c", "sleep 1000 & echo begun; wait"},
                            .temporary = folder.path() / "t"},
                           watch),
                  Stopped);
}

TEST_CASE("a tool's message decides whether to try again", "[tool]") {
  const auto code = [](const std::string& message) {
    return tool_error("cannot", {.exit_status = 1, .output = {}, .message = message}).code();
  };
  CHECK(code("rsync: link_stat \"/x\" failed: No such file or directory (2)") == Errc::NotFound);
  CHECK(code("me@h: Permission denied (publickey).") == Errc::InvalidInput);
  CHECK(code("fatal: unable to access 'https://h/': Could not resolve host: h") ==
        Errc::Unavailable);
  CHECK(code("") == Errc::Unavailable);
  CHECK_THAT(tool_error("cannot", {.exit_status = 7, .output = {}, .message = {}}).what(),
             Contains("cannot: exit status 7"));
}
