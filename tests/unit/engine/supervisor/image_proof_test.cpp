#include <stdlib.h>

#include "base/file_identity.h"
#include "base/sha256.h"
#include "engine/container/tree.h"
#include "engine/supervisor/input_proof.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr const char* kOtherFileSystem = "/dev/shm";

/// A folder in another file system than that of temporary files.
class FarFolder {
 public:
  FarFolder() : path_(std::string(kOtherFileSystem) + "/dlflow-test.XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  FarFolder(const FarFolder&) = delete;
  FarFolder& operator=(const FarFolder&) = delete;
  ~FarFolder() {
    std::error_code none;
    if (!path_.empty()) fs::remove_all(path_, none);
  }
  fs::path path() const { return path_; }

 private:
  std::string path_;
};

/// A run with an image in another file system.
struct FarImage {
  FarImage() {
    if (folder.path().empty()) return;
    write("v1");
    spec.run_directory = run.path();
    spec.container.emplace();
    spec.container->from = "dir:" + folder.path().string();
    spec.container->digest =
        folder_digest(folder.path(), [](const fs::path& file) { return sha256_file(file); });
  }
  bool is_far() const {
    return !folder.path().empty() && device_of(folder.path()) != device_of(run.path());
  }
  void write(const std::string& content) const {
    write_file_atomic(folder.path() / "version", content);
  }
  /// Plans as with a file server whose clock is ahead: the run looks younger than each change of
  /// the image.
  void plan() const {
    fs::path planned;
    do {  // times of files are coarse
      planned = run.write("workflow.yaml", "");
    } while (identity_of(planned).ctime_ns <= identity_of(folder.path()).ctime_ns);
  }
  ImageProof proof() {
    return ImageProof(spec, [this] { return now; });
  }

  test::TempDir run;
  FarFolder folder;
  JobSpec spec;
  std::chrono::steady_clock::time_point now{};
};

}  // namespace

TEST_CASE("the clock of another file system cannot prove an image unchanged", "[image_proof]") {
  FarImage image;
  if (!image.is_far()) return test::skip("there is no second file system to write to");
  image.write("v2");
  image.plan();
  CHECK(InputProof(image.spec).find_change() ==
        "the image " + image.folder.path().string() + " changed after the run was planned");
  image.write("v1");
  image.plan();
  CHECK(InputProof(image.spec).find_change() == std::nullopt);
}

TEST_CASE("an image in another file system is read until a job has noted its state",
          "[image_proof]") {
  FarImage image;
  if (!image.is_far()) return test::skip("there is no second file system to write to");
  const auto is_read = [&image] {
    const Digest digest = std::exchange(image.spec.container->digest, {});
    const bool is_other = image.proof().find_change().has_value();
    image.spec.container->digest = digest;
    return is_other;
  };
  const ImageProof first = image.proof();
  CHECK(first.find_change() == std::nullopt);
  CHECK(is_read());  // it may have changed again in the same tick
  image.now += 2s;
  SECTION("it was left alone") {
    CHECK(first.find_change() == std::nullopt);
    CHECK_FALSE(is_read());
    image.write("v1");
    CHECK(is_read());
  }
  SECTION("it was changed meanwhile") {
    image.write("v1");
    CHECK(first.find_change() == std::nullopt);
    CHECK(is_read());
  }
}
