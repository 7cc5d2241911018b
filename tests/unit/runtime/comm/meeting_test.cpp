#include "runtime/comm/meeting.h"

#include <chrono>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/endpoint.h"
#include "base/file.h"
#include "base/socket.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;
using dlflow::test::error_of;

namespace {

/// Returns the addresses that each rank receives, or throws.
std::vector<std::string> told(const std::filesystem::path& file, int ranks) {
  std::vector<std::string> lists{size_t(ranks)};
  {
    std::vector<std::jthread> threads;
    for (int rank = ranks - 1; rank >= 0; --rank) {
      threads.emplace_back([&, rank] {
        try {
          for (const auto& text : meet(file, rank, ranks, "at " + std::to_string(rank), 20s)) {
            lists[size_t(rank)] += text + ";";
          }
        } catch (const std::exception& error) {
          lists[size_t(rank)] = error.what();
        }
      });
    }
  }
  return lists;
}

}  // namespace

TEST_CASE("ranks that meet learn the addresses of all", "[comm]") {
  const test::TempDir folder;
  const std::filesystem::path file = folder.path() / "ranks";
  CHECK(told(file, 1) == std::vector<std::string>(1, "at 0;"));
  CHECK(told(file, 3) == std::vector<std::string>(3, "at 0;at 1;at 2;"));
  CHECK(told(file, 6) == std::vector<std::string>(6, "at 0;at 1;at 2;at 3;at 4;at 5;"));
  CHECK(!std::filesystem::exists(file));
}

TEST_CASE("files of an earlier start mislead no rank", "[comm]") {
  const test::TempDir folder;
  const std::filesystem::path file = folder.path() / "ranks";
  const Listener stranger = listen_anywhere();  // a silent process that has the port now
  const Endpoint earlier = endpoint_of(stranger);
  SECTION("they name an unused port") { write_file_atomic(file, "0123 here 9 127.0.0.1"); }
  SECTION("they name a stranger's port") { write_file_atomic(file, to_string(earlier)); }
  std::jthread hangs_up([&] {
    for (int i = 0; i < 40; ++i) {
      accept_from(stranger);
      std::this_thread::sleep_for(5ms);
    }
  });
  CHECK(told(file, 2) == std::vector<std::string>(2, "at 0;at 1;"));
}

TEST_CASE("a stranger without the secret is rejected", "[comm]") {
  const test::TempDir folder;
  const std::filesystem::path file = folder.path() / "ranks";
  std::string host;
  std::jthread waits([&] { host = error_of([&] { meet(file, 0, 2, "at 0", 500ms); }); });
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(1ms);
  Endpoint place = endpoint_from(read_file(file));
  place.token.front() = place.token.front() == '0' ? '1' : '0';
  const auto elsewhere = folder.path() / "guessed";
  write_file_atomic(elsewhere, to_string(place));
  CHECK_THAT(error_of([&] { meet(elsewhere, 1, 2, "at 1", 200ms); }),
             Catch::StartsWith("rank 1: rank 0 did not answer within 0.2 s"));
  waits.join();
  CHECK_THAT(host, Catch::StartsWith("rank 0: rank 1 did not answer within 0.5 s"));
}

TEST_CASE("a file that others may read is refused", "[comm]") {
  const test::TempDir folder;
  const std::filesystem::path file = folder.path() / "ranks";
  write_file_atomic(file, "x");
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  CHECK_THAT(error_of([&] { meet(file, 1, 2, "at 1", 200ms); }),
             Catch::Contains("open to other users"));
}
