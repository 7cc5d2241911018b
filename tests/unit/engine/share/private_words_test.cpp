#include "engine/share/private_words.h"

#include <stdlib.h>

#include "base/process.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;

namespace {

/// Sets variables until the end of a test.
struct Variables {
  test::Variable home{"HOME", {}}, state{"DLFLOW_HOME", {}}, cache_home{"XDG_CACHE_HOME", {}},
      state_home{"XDG_STATE_HOME", {}}, user{"USER", {}}, logname{"LOGNAME", {}};
};

Plan some_plan() {
  Plan plan;
  plan.directory = "/the/runs/w-7f3a";
  plan.base = "/the/flows/";
  plan.profile.cache = "/the/cache";
  plan.profile.scratch = "/the/../the/scratch";
  return plan;
}

PrivateWords only(const std::vector<std::string>& nodes) { return {Plan(), nodes}; }

}  // namespace

TEST_CASE("the folders of the run, the workflow, the profile and the user are private",
          "[private_words]") {
  const Variables variables;
  ::setenv("HOME", "/homes/ada", 1);
  ::setenv("DLFLOW_HOME", "/state/of", 1);
  ::setenv("XDG_CACHE_HOME", "/xdg/cache", 1);
  ::setenv("XDG_STATE_HOME", "/xdg/state", 1);
  const PrivateWords words(some_plan(), {});
  for (const std::string folder :
       {"/the/runs/w-7f3a", "/the/runs", "/the/flows", "/the/cache", "/the/scratch", "/homes/ada",
        "/state/of", "/xdg/cache", "/xdg/state"}) {
    INFO(folder);
    const auto found = words.find_in("at " + folder + "/x");
    REQUIRE(found);
    CHECK(folder.starts_with(*found));
    CHECK(words.find_in(std::string(1, '\0') + folder));
  }
  CHECK(words.find_in("/the/flows") == "/the/flows");
  CHECK_FALSE(words.find_in("/the/others, /homes and /xdg"));
}

TEST_CASE("folders that exist on every machine are not private", "[private_words]") {
  const Variables variables;
  for (const char* folder : {"/", "/tmp", "/var/tmp", "/dev/shm", "relative/folder", "/tmp/"}) {
    ::setenv("HOME", folder, 1);
    CHECK_FALSE(only({}).find_in("/ and /tmp/x, /var/tmp/x, /dev/shm/x, relative/folder"));
  }
  ::setenv("HOME", "/var/tmp/mine", 1);
  CHECK(only({}).find_in("/var/tmp/mine"));
}

TEST_CASE("the names of the user and of hosts are private, as words", "[private_words]") {
  const Variables variables;
  ::setenv("USER", "ada", 1);
  ::setenv("LOGNAME", "lovelace", 1);
  const PrivateWords words = only({"big.cluster.org", "localhost", "root", "x"});
  CHECK(words.find_in("by ada") == "ada");
  CHECK(words.find_in("by lovelace.") == "lovelace");
  CHECK(words.find_in("on big") == "big");
  CHECK(words.find_in("on big.cluster.org") == "big");
  CHECK(words.find_in("at " + host_name() + "!"));
  for (const char* before : {"a", "z", "A", "Z", "0", "9", "_", "-"}) {
    CHECK_FALSE(words.find_in(before + std::string("ada")));
    CHECK_FALSE(words.find_in("ada" + std::string(before)));
  }
  for (const char* around : {"@", "[", "`", "{", "/", ":", ".", " "}) {
    CHECK(words.find_in(around + std::string("ada") + around) == "ada");
  }
  CHECK(words.find_in("nada, ada") == "ada");
  CHECK_FALSE(words.find_in("localhost, root and x"));
}

TEST_CASE("a node is private with all nodes of its cluster", "[private_words]") {
  const Variables variables;
  const PrivateWords words = only({"node17", "abc1"});
  for (const char* text : {"node17", "node0", "node9:", "on node123 ", "node and node4"}) {
    CHECK(words.find_in(text) == "node");
  }
  for (const char* text : {"node", "a node.", "node1x", "node/1", "node:", "xnode1", "abc2"}) {
    CHECK_FALSE(words.find_in(text));
  }
  CHECK(words.find_in("abc1") == "abc1");
}

TEST_CASE("names of six letters are found in binary files, since only shorter ones may be chance",
          "[private_words]") {
  const Variables variables;
  const PrivateWords words = only({"sixsix", "fives"});
  const std::string zero(1, '\0');
  CHECK(words.find_in(zero + "sixsix") == "sixsix");
  CHECK_FALSE(words.find_in(zero + "fives"));
  CHECK(words.find_in("fives") == "fives");
}

TEST_CASE("a private word is found at any place in a file", "[private_words]") {
  const Variables variables;
  const test::TempDir folder;
  const PrivateWords words = only({"somebody"});
  constexpr size_t kPiece = size_t{1} << 20;
  for (const size_t place : {size_t{0}, size_t{100}, kPiece - 9, kPiece - 1, kPiece, kPiece + 5000,
                             2 * kPiece - 4096 - 3, 2 * kPiece - 4100}) {
    INFO(place);
    CHECK(words.find_in_file(folder.write(
              "f", std::string(place, ' ') + "somebody" + std::string(100, ' '))) == "somebody");
  }
  CHECK_FALSE(words.find_in_file(folder.write("f", std::string(3 * kPiece, ' '))));
}
