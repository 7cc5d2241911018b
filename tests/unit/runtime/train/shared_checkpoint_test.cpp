#include "runtime/train/node_view.h"
#include "tests/support/catch.h"
#include "tests/support/damage.h"
#include "tests/support/error_of.h"
#include "tests/support/hashed_bytes.h"
#include "tests/unit/runtime/train/tiny_job.h"

/// Tests how often ranks read and hash a checkpoint that they continue from.
using namespace dlflow;
using namespace dlflow::runtime;
using test::error_of;
namespace fs = std::filesystem;

namespace {

/// A run of one epoch with a checkpoint of megabytes.
TrainingJob wide_job(const fs::path& folder) {
  TrainingJob job = test::tiny_job(folder, 1);
  job.model = parse_model(
      "name: wide\ninput: [1, 8, 8]\nlayers:\n  - flatten\n  - linear: {name: a, features: 1500}\n"
      "  - relu\n  - linear: {name: b, features: 3}\n",
      "wide.yaml");
  return job;
}

uint64_t bytes_in(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) bytes += entry.file_size();
  return bytes;
}

}  // namespace

TEST_CASE("a run that goes on hashes its checkpoint once per node", "[trainer]") {
  const test::TempDir dir;
  const TrainingJob job = wide_job(dir.path());
  const uint64_t bytes = bytes_in(test::train_on(1, job)[0].checkpoint);
  REQUIRE(bytes > 700'000);
  const int nodes = GENERATE(1, 2, 4);
  ThreadGroup group(4, std::chrono::seconds(60), 4 / nodes);
  const uint64_t hashed = test::hashed_by([&] {
    test::on_ranks(group, 4, [&](Communicator& comm) { return train(comm, job, test::kGoOn); });
  });
  CHECK(hashed > uint64_t(nodes) * bytes * 9 / 10);
  CHECK(hashed < uint64_t(nodes) * bytes + bytes / 2);
}

TEST_CASE("ranks that find different checkpoints are named", "[trainer]") {
  const test::TempDir ours, theirs;
  const fs::path here = test::train_on(1, wide_job(ours.path()))[0].checkpoint;
  TrainingJob other = wide_job(theirs.path());
  other.settings.lr = 0.04;
  const fs::path there = test::train_on(1, other)[0].checkpoint;
  const auto errors = test::on_ranks(3, [&](Communicator& comm) {
    return error_of([&] { load_shared_checkpoint(comm, comm.rank() == 1 ? there : here); });
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::StartsWith("the checkpoint of rank 1 differs from that of rank 0"));
  }
}

TEST_CASE("a rank does not accept another copy of its node's verified checkpoint", "[trainer]") {
  const test::TempDir ours, theirs;
  const fs::path here = test::train_on(1, wide_job(ours.path()))[0].checkpoint;
  const fs::path there = theirs.path() / here.filename();
  fs::copy(here, there, fs::copy_options::recursive);
  test::damage(there / "model.safetensors", bytes_in(there) / 4);
  ThreadGroup group(2, std::chrono::seconds(1));
  const auto errors = test::on_ranks(group, 2, [&](Communicator& comm) {
    return error_of([&] { load_shared_checkpoint(comm, comm.rank() == 1 ? there : here); });
  });
  CHECK_THAT(errors[1], Catch::Contains("model.safetensors is damaged"));
  CHECK_THAT(errors[0], Catch::Contains("rank 1"));  // the rank that it waited for
}
