#include "steps/stage/stage.h"
#include "tests/support/catch.h"
#include "tests/unit/steps/step_fixture.h"
#include "tests/unit/steps/transfer/servers.h"

using namespace dlflow;
namespace fs = std::filesystem;

TEST_CASE("a download without an end stops at the cache's budget, and leaves nothing",
          "[stage][attack]") {
  const std::string head =
      GENERATE("HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Range: bytes 0-8/9\r\n\r\n");
  const test::AnsweringServer server([&](const std::string&) { return head; },
                                     test::AnsweringServer::Ends::Never);
  const Json source = {{"url", "http://" + server.host() + "/endless"}};
  const Json with = {{"sources", Json::array({source})}};
  const test::StepFixture step(with);
  test::StepFixture::set("DLFLOW_CACHE_BUDGET", "1000000");
  CHECK(steps::stage_main() == 1);
  for (const char* folder : {"cache/objects", "cache/partial", "cache/work", "outputs"}) {
    CAPTURE(folder);
    CHECK(fs::is_empty(step.folder().path() / folder));
  }
}
