#include "engine/container/image_build.h"

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// A base image that a job builds on.
class Build {
 public:
  Build() {
    base.digest = Digest::of_hex(std::string(64, 'a'));
    base.rootfs = folder.path() / "base";
    base.folder = folder.path() / "stored";
    make_directories(base.rootfs);
    job.image = "mpi";
    job.digest = base.digest;
    job.runtime = "udocker";
    job.mode = "P1";
    job.arguments = {"--nobanner"};
    job.environment = {{"LR", "0.1"}};
    job.commands = {{"./train"}};
    job.build = {{"run", "make"}, {"env", {{"VERSION", "4.1"}, {"JOBS", 2}}}};
  }

  /// `changes` does the work of the build's command in the root file system.
  StoredImage made(const std::function<int(const fs::path& rootfs)>& changes) {
    return built_image(job, store, base, folder.path() / "work",
                       [&](const ContainerJob& build, const StoredImage& image) {
                         built = build;
                         ++times;
                         return changes(image.rootfs);
                       });
  }

  test::TempDir folder;
  StoredImage base;
  ContainerJob job, built;
  int times = 0;

 private:
  ImageStore store{folder.path() / "cache"};
};

/// The mount point of dlflow that a runtime leaves in a root file system.
void leave_mount_point(const fs::path& rootfs) {
  const fs::path place = rootfs / fs::read_symlink("/proc/self/exe").relative_path();
  make_directories(place.parent_path());
  write_file_atomic(place, "");
}

}  // namespace

TEST_CASE("an image is built once, only by its command, in a copy of its base", "[image_build]") {
  Build build;
  write_file_atomic(build.base.rootfs / "old", "1");
  const auto make = [](const fs::path& rootfs) {
    write_file_atomic(rootfs / "new", "2");
    leave_mount_point(rootfs);
    return 0;
  };
  const StoredImage image = build.made(make);
  CHECK(image.digest == built_digest(build.base.digest, build.job.build));
  CHECK(read_file(image.rootfs / "old") == "1");
  CHECK(read_file(image.rootfs / "new") == "2");
  CHECK(std::distance(fs::directory_iterator(image.rootfs), {}) == 2);  // no mount point
  CHECK_FALSE(fs::exists(build.base.rootfs / "new"));

  CHECK(build.built.arguments == build.job.arguments);
  CHECK(build.built.mode == "P1");
  CHECK(build.built.directory == build.folder.path() / "work");
  CHECK(build.built.environment ==
        std::map<std::string, std::string>{{"VERSION", "4.1"}, {"JOBS", "2"}});
  CHECK(build.built.commands ==
        std::vector<std::vector<std::string>>{{"bash", "-ec", "make"}, {"sh", "-ec", "make"}});

  CHECK(build.made(make).rootfs == image.rootfs);
  CHECK(build.times == 1);
  build.job.build["run"] = "make all";
  CHECK(build.made(make).rootfs != image.rootfs);
}

TEST_CASE("a built image loses the mount point that the runtime left", "[image_build]") {
  Build build;
  const StoredImage image = build.made([](const fs::path& rootfs) {
    leave_mount_point(rootfs);
    return 0;
  });
  CHECK(fs::is_directory(image.rootfs));
  CHECK(fs::is_empty(image.rootfs));
}

TEST_CASE("a command that fails makes no image", "[image_build]") {
  Build build;
  CHECK_THROWS_WITH(build.made([](const fs::path&) { return 3; }),
                    Catch::Contains("the `build:` of image 'mpi' ended with exit status 3"));
  CHECK(build.made([](const fs::path&) { return 0; }).bytes == 0);
  CHECK(build.times == 2);
}
