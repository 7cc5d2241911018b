#include "runtime/comm/call_log.h"

#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

uint64_t hash_of(const std::vector<Call>& calls) {
  CallLog log;
  for (const Call& call : calls) log.add(call);
  return log.head().hash;
}

}  // namespace

TEST_CASE("a call is described in words", "[comm]") {
  CallLog log;
  log.add({"all-reduce", "conv1.weight", 9216, "fp32"});
  log.add({"broadcast", "", 64, "bytes", 2});
  log.add({"barrier"});
  const auto calls = log.recent().newest;
  CHECK(to_string(calls[0]) == "all-reduce 'conv1.weight' of 9216 fp32");
  CHECK(to_string(calls[1]) == "broadcast of 64 bytes from rank 2");
  CHECK(to_string(calls[2]) == "barrier");
}

TEST_CASE("any difference in calls or in their order changes the hash", "[comm]") {
  const Call call{"all-reduce", "w", 10, "fp32", 0};
  const uint64_t hash = hash_of({call});
  CHECK(hash_of({call}) == hash);
  CHECK(hash_of({{"all-reduce (max)", "w", 10, "fp32", 0}}) != hash);
  CHECK(hash_of({{"all-reduce", "v", 10, "fp32", 0}}) != hash);
  CHECK(hash_of({{"all-reduce", "w", 11, "fp32", 0}}) != hash);
  CHECK(hash_of({{"all-reduce", "w", 10, "fp16", 0}}) != hash);
  CHECK(hash_of({{"all-reduce", "w", 10, "fp32", 1}}) != hash);
  CHECK(hash_of({call, {"barrier"}}) != hash_of({{"barrier"}, call}));
  const std::string longer(1000, 'x');
  CHECK(hash_of({{"a", longer + "y", 0, ""}}) != hash_of({{"a", longer + "z", 0, ""}}));
}

TEST_CASE("the log keeps the newest calls with their hashes", "[comm]") {
  CallLog log;
  std::vector<uint64_t> hashes = {0};
  const size_t num_calls = CallLog::kKept + 10;
  for (size_t i = 0; i < num_calls; ++i) {
    log.add({"all-reduce", "", i, "fp32"});
    hashes.push_back(log.head().hash);
  }
  CHECK(log.head().count == num_calls);
  CHECK(log.hash_after(num_calls) == hashes[num_calls]);
  CHECK(log.hash_after(11) == hashes[11]);
  CHECK(log.hash_after(10) == std::nullopt);
  CHECK(log.hash_after(num_calls + 1) == std::nullopt);
  const CallLog::Recent recent = log.recent();
  CHECK(recent.count == num_calls);
  REQUIRE(recent.newest.size() == CallLog::kKept);
  CHECK(recent.newest.front().num_elements == 10);
  CHECK(recent.newest.back().num_elements == num_calls - 1);
}
