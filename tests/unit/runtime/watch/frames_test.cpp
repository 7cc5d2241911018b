#include "runtime/watch/frames.h"

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("calls and errors are read from frames as they were written", "[watch]") {
  CallLog log;
  log.add({"barrier"});
  log.add({"all-reduce", "w", 10, "fp32"});
  const CallLog::Recent calls = calls_from(to_body(log.recent()));
  CHECK(calls.count == 2);
  REQUIRE(calls.newest.size() == 2);
  CHECK(to_string(calls.newest[1]) == "all-reduce 'w' of 10 fp32");
  const auto error = error_from(to_body(WatchError(Fault::Lost, Errc::NotFound, "gone")));
  REQUIRE(error);
  CHECK(error->fault() == Fault::Lost);
  CHECK(error->code() == Errc::NotFound);
  CHECK(std::string(error->what()) == "gone");
}

TEST_CASE("truncated frames are not read as calls or errors", "[watch]") {
  for (const char* body : {"", "1234567"}) {
    CHECK(calls_from(body).count == 0);
    CHECK(calls_from(body).newest.empty());
    CHECK_FALSE(error_from(std::string_view(body).substr(0, sizeof(ErrorHead) - 1)));
  }
  CallLog log;
  log.add({"barrier"});
  std::string cut = to_body(log.recent());
  cut.pop_back();
  CHECK(calls_from(cut).count == 1);
  CHECK(calls_from(cut).newest.empty());
}
