#include "runtime/data/node_copy.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "runtime/data/binary_writer.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

namespace fs = std::filesystem;

/// Data on a shared file system, and the disk of a node.
struct Node {
  test::TempDir shared, disk;
  fs::path binary = shared.path() / "train.dlset";
  fs::path plain = shared.write("train-labels-idx1-ubyte", std::string(5000, 'l'));

  Node() { write_binary_dataset(binary, test::tiny_dataset(40)); }

  NodeDisk node_disk(uint64_t budget_bytes = 0) const { return {disk.path(), budget_bytes}; }

  std::vector<CopySource> sources() const {
    return copy_sources(std::vector<fs::path>{binary, plain});
  }

  /// The number of entries on the disk, except the lock that stays.
  size_t num_entries() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(own())) {
      count += entry.path().filename() != "registry" ? 1 : 0;
    }
    return count;
  }

  fs::path own() const { return disk.path() / ("dlflow-" + std::to_string(::geteuid())); }
};

void check_content(const NodeCopy& copy, const Node& node) {
  CHECK(read_file(copy.folder() / "train.dlset") == read_file(node.binary));
  CHECK(read_file(copy.folder() / "train-labels-idx1-ubyte") == read_file(node.plain));
}

std::string refusal(const Node& node, const NodeDisk& disk) {
  return test::error_of([&] { const NodeCopy copy(node.sources(), disk); });
}

}  // namespace

TEST_CASE("a copy is made once, found by later jobs, and removed with the last", "[node copy]") {
  const Node node;
  auto first = std::make_unique<NodeCopy>(node.sources(), node.node_disk());
  CHECK(first->made());
  check_content(*first, node);
  const NodeCopy second(node.sources(), node.node_disk());
  CHECK_FALSE(second.made());
  CHECK(second.folder() == first->folder());
  first.reset();
  check_content(second, node);
}

TEST_CASE("the last job leaves no files", "[node copy]") {
  const Node node;
  { const NodeCopy copy(node.sources(), node.node_disk()); }
  CHECK(node.num_entries() == 0);
}

TEST_CASE("one of many simultaneous jobs makes the copy, and all find it", "[node copy][threads]") {
  const Node node;
  const auto sources = node.sources();
  std::atomic<int> made = 0, whole = 0;
  {
    std::vector<std::jthread> jobs;
    for (int i = 0; i < 6; ++i) {
      jobs.emplace_back([&] {
        const NodeCopy copy(sources, node.node_disk());
        made += copy.made() ? 1 : 0;
        whole += read_file(copy.folder() / "train.dlset") == read_file(node.binary) ? 1 : 0;
        while (whole < 6) std::this_thread::yield();  // no job leaves before all have come
      });
    }
  }
  CHECK(made == 1);
  CHECK(whole == 6);
  CHECK(node.num_entries() == 0);
}

TEST_CASE("a copy is found by the data's content, not by its place", "[node copy]") {
  const Node node, elsewhere;
  const NodeCopy copy(node.sources(), node.node_disk());
  CHECK_FALSE(NodeCopy(elsewhere.sources(), node.node_disk()).made());
  elsewhere.shared.write("train-labels-idx1-ubyte", std::string(5000, 'm'));
  CHECK(NodeCopy(elsewhere.sources(), node.node_disk()).made());
}

TEST_CASE("copies stay within the disk's budget", "[node copy]") {
  const Node node, other;
  other.shared.write("train-labels-idx1-ubyte", std::string(4000, 'o'));
  const uint64_t bytes = total_bytes(node.sources());
  CHECK_THAT(refusal(node, node.node_disk(bytes - 1)), Catch::Contains("do not fit into the"));
  CHECK(node.num_entries() == 0);
  const NodeCopy copy(node.sources(), node.node_disk(bytes + 100));
  CHECK_THAT(refusal(other, node.node_disk(bytes + 100)), Catch::Contains("is in use"));
  CHECK(refusal(node, node.node_disk(bytes + 100)).empty());
}

TEST_CASE("a missing or foreign disk is named as the reason, and not created", "[node copy]") {
  const Node node;
  const fs::path missing = node.disk.path() / "nvme";
  CHECK_THAT(refusal(node, {missing, 0}), Catch::Contains("No such file or directory"));
  CHECK_FALSE(fs::exists(missing));
  CHECK_THAT(refusal(node, {node.plain, 0}), Catch::Contains("Not a directory"));
  fs::create_directory(node.own());
  fs::permissions(node.own(), fs::perms(0777));
  CHECK_THAT(refusal(node, node.node_disk()), Catch::Contains("type `chmod 700"));
}

TEST_CASE("a damaged source is named, and leaves no copy", "[node copy]") {
  const Node node;
  std::string content = read_file(node.binary);
  content.back() ^= 1;
  write_file_atomic(node.binary, content);
  CHECK_THAT(refusal(node, node.node_disk()),
             Catch::StartsWith(node.binary.string() + ": its SHA-256 does not match"));
  CHECK(node.num_entries() == 0);
}

TEST_CASE("a copy that was damaged on the disk is not used", "[node copy]") {
  const Node node;
  const std::string name = GENERATE("train.dlset", "train-labels-idx1-ubyte");
  const auto damage = [&](const fs::path& folder) {
    std::string content = read_file(folder / name);
    content[content.size() - 3] ^= 1;
    write_file_atomic(folder / name, content);
  };
  SECTION("it is made again if no job uses it") {
    fs::path left;
    const pid_t child = ::fork();
    if (child == 0) {  // killed, it leaves a whole copy
      const NodeCopy copy(node.sources(), node.node_disk());
      ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
    for (const auto& entry : fs::directory_iterator(node.own())) {
      if (entry.is_directory()) left = entry.path();
    }
    REQUIRE_FALSE(left.empty());
    damage(left);
    const NodeCopy copy(node.sources(), node.node_disk());
    CHECK(copy.made());
    check_content(copy, node);
  }
  SECTION("the job goes without it otherwise") {
    const NodeCopy copy(node.sources(), node.node_disk());
    damage(copy.folder());
    CHECK_THAT(refusal(node, node.node_disk()), Catch::Contains("damaged, and in use"));
    CHECK(fs::exists(copy.folder()));
  }
}

TEST_CASE("a killed job's copy is used by a job with the same data, and removed by others",
          "[node copy]") {
  const Node node, other;
  other.shared.write("train-labels-idx1-ubyte", "other");
  const pid_t child = ::fork();
  if (child == 0) {
    const NodeCopy copy(node.sources(), node.node_disk());
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  REQUIRE(node.num_entries() == 2);  // the copy and its lock
  SECTION("it is used") {
    const NodeCopy copy(node.sources(), node.node_disk());
    CHECK_FALSE(copy.made());
    check_content(copy, node);
  }
  SECTION("it is removed") {
    const NodeCopy copy(other.sources(), node.node_disk());
    CHECK(node.num_entries() == 2);  // the job's own copy
  }
}

TEST_CASE("a kill at any moment leaves no copy that the next job takes for complete",
          "[node copy]") {
  bool finished = false;
  for (size_t limit = 0; !finished; ++limit) {
    const Node node;
    const auto sources = node.sources();
    const auto calls = test::run_until_syscall(
        limit, finished, [&] { const NodeCopy copy(sources, node.node_disk()); });
    if (!calls) return test::skip("processes cannot be traced here");
    {
      const NodeCopy copy(sources, node.node_disk());
      check_content(copy, node);
    }
    REQUIRE(node.num_entries() == 0);
  }
}
