#include "steps/scratch/node_data.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "runtime/data/binary_writer.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"
#include "tests/support/variable.h"

using namespace dlflow;
using namespace std::chrono_literals;
using steps::node_disk;
namespace fs = std::filesystem;

namespace {

/// Ranks that share data on a shared file system, two per node.
struct Ranks {
  explicit Ranks(int number) : group(number, 60s, 2), count(number) {
    runtime::write_binary_dataset(data.path() / "train.dlset", test::tiny_dataset(40));
  }

  /// The folder that each rank reads, while all of them hold their copies.
  std::vector<fs::path> folders() {
    return test::on_ranks(group, count, [&](runtime::Communicator& comm) {
      const steps::NodeData here(comm, data.path(), runtime::Split::Train, metrics());
      const fs::path folder = here.folder();
      if (!fs::exists(folder / "train.dlset")) return fs::path("nothing");
      comm.barrier();
      return folder;
    });
  }

  fs::path metrics() const { return own.path() / "metrics.jsonl"; }

  /// The printed message: one line for any number of ranks.
  std::string message() const { return Json::parse(read_file(metrics())).at("message"); }

  std::string size() const { return format_size(fs::file_size(data.path() / "train.dlset")); }

  test::TempDir data, disk, own;
  runtime::ThreadGroup group;
  int count;
};

/// The output of `work` on this descriptor.
template <typename Work>
std::string printed(int descriptor, const Work& work) {
  const test::TempDir folder;
  const fs::path said = folder.write("said", "");
  const FileDescriptor before(::dup(descriptor));
  const FileDescriptor file(::open(said.c_str(), O_WRONLY | O_CLOEXEC));
  ::dup2(file.get(), descriptor);
  work();
  ::dup2(before.get(), descriptor);
  return read_file(said);
}

}  // namespace

TEST_CASE("a node's disk is the step's own choice, otherwise that for temporary files",
          "[scratch]") {
  const test::Variable budget("DLFLOW_SCRATCH_BUDGET", {});
  const test::Variable temporary("TMPDIR", "/local/tmp");
  {
    const test::Variable scratch("DLFLOW_SCRATCH", "/local/scratch");
    CHECK(node_disk().scratch == "/local/scratch");
    CHECK(node_disk().budget_bytes == 0);
  }
  const test::Variable scratch("DLFLOW_SCRATCH", {});
  CHECK(node_disk().scratch == "/local/tmp");
  const test::Variable nothing("TMPDIR", {});
  CHECK(node_disk().scratch == "/tmp");
  const test::Variable bytes("DLFLOW_SCRATCH_BUDGET", "4096");
  CHECK(node_disk().budget_bytes == 4096);
}

TEST_CASE("the first rank of each node has its data copied, and all ranks there read the copy",
          "[scratch]") {
  Ranks ranks(3);
  const test::Variable scratch("DLFLOW_SCRATCH", ranks.disk.path());
  std::vector<fs::path> folders;
  const std::string said = printed(STDOUT_FILENO, [&] { folders = ranks.folders(); });
  CHECK(folders[0].string().starts_with(ranks.disk.path().string()));
  CHECK(folders == std::vector<fs::path>(3, folders[0]));
  // Both nodes have the same disk here: the second one finds the copy of the first.
  CHECK(ranks.message() == ranks.size() + " of data on the disk of 2 of 2 nodes, 1 found there");
  CHECK(said.find(": data copied to " + folders[0].string() + " (" + ranks.size()) !=
        std::string::npos);
  CHECK(said.find(": data found in " + folders[0].string()) != std::string::npos);
}

TEST_CASE("a node with the only copy prints nothing about others", "[scratch]") {
  Ranks ranks(2);
  const test::Variable scratch("DLFLOW_SCRATCH", ranks.disk.path());
  printed(STDOUT_FILENO, [&] { ranks.folders(); });
  CHECK(ranks.message() == ranks.size() + " of data on the disk of 1 of 1 node");
}

TEST_CASE("data is read from its original place if there is no room for a copy", "[scratch]") {
  Ranks ranks(4);
  const test::Variable scratch("DLFLOW_SCRATCH", ranks.disk.path());
  const test::Variable budget("DLFLOW_SCRATCH_BUDGET", "1");
  std::vector<fs::path> folders;
  const std::string said = printed(STDERR_FILENO, [&] { folders = ranks.folders(); });
  CHECK(folders == std::vector<fs::path>(4, ranks.data.path()));
  CHECK(ranks.message() == ranks.size() + " of data on the disk of 0 of 2 nodes");
  CHECK(said.find(" reads the data in place, without a copy: ") != std::string::npos);
}
