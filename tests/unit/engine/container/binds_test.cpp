#include "engine/container/binds.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;

namespace fs = std::filesystem;

namespace {

bool sees(const ContainerJob& job, const std::string& folder) {
  const std::vector<Bind> binds = container_binds(job);
  return std::any_of(binds.begin(), binds.end(), [&](const Bind& bind) {
    return bind.source == folder && bind.target == folder && !bind.read_only;
  });
}

}  // namespace

TEST_CASE("a container sees the node's local disk, if the node has one", "[binds]") {
  ContainerJob job;
  CHECK_FALSE(sees(job, "/var/tmp"));
  job.environment["DLFLOW_SCRATCH"] = "/var/tmp";
  CHECK(sees(job, "/var/tmp"));
  job.environment["DLFLOW_SCRATCH"] = "/no/such/disk";
  CHECK_FALSE(sees(job, "/no/such/disk"));
}

TEST_CASE("each folder that a container sees exists, under a name that runtimes accept",
          "[binds]") {
  const test::TempDir folder;
  ContainerJob job;
  job.binds = {{folder.path() / "none", "/data"}};
  CHECK_THROWS_WITH(container_binds(job), Catch::Contains("/none, which the container needs"));
  for (const char* name : {"a:b", "a,b"}) {
    make_directories(folder.path() / name);
    job.binds = {{folder.path() / name, "/data"}};
    CHECK_THROWS_WITH(container_binds(job), Catch::Contains("cannot be bound into a container"));
    job.binds = {{folder.path(), std::string("/") + name}};
    CHECK_THROWS_WITH(container_binds(job), Catch::Contains("cannot be bound into a container"));
  }
}

TEST_CASE("a folder is bound once, and before its subfolders", "[binds]") {
  const test::TempDir folder;  // below /tmp, which every container sees
  make_directories(folder.path() / "a/b");
  const auto path = [&](const char* name) { return folder.path() / name; };
  const auto bound = [&](std::vector<Bind> binds) {
    ContainerJob job;
    job.binds = std::move(binds);
    std::vector<Bind> left;
    for (const Bind& bind : container_binds(job)) {
      if (bind.target.string().starts_with("/x") ||
          bind.source.string().starts_with(path("a").string())) {
        left.push_back(bind);
      }
    }
    return left;
  };
  CHECK(bound({{path("a"), path("a")}}).empty());  // /tmp has it
  const Bind read_only = {path("a"), path("a"), true};
  CHECK(bound({read_only}) == std::vector<Bind>{read_only});
  CHECK(bound({{path("a/b"), path("a/b"), true}, read_only}) == std::vector<Bind>{read_only});
  CHECK(bound({{path("a/b"), path("a/b")}, read_only}) == std::vector<Bind>{read_only});
  CHECK(bound({{path("a"), "/x/long"}, {path("a"), "/x"}}) ==
        std::vector<Bind>{{path("a"), "/x"}, {path("a"), "/x/long"}});
  CHECK(bound({{path("a"), "/x"}, {path("a"), "/x"}}).size() == 2);  // as requested
}

TEST_CASE("a container sees the program that runs it, and the meeting place of ranks", "[binds]") {
  const test::TempDir folder;
  make_directories(folder.path() / "pmix");
  const auto bound = [](const std::string& name) {
    const std::vector<Bind> binds = container_binds({});
    return std::any_of(binds.begin(), binds.end(), [&](const Bind& bind) {
      return bind.source == name && bind.target == name;
    });
  };
  CHECK(bound(fs::read_symlink("/proc/self/exe")));
  const test::Variable server("PMIX_SERVER_TMPDIR", "/var/pmix.4711");
  CHECK(bound("/var"));  // the folder around it, since its name is new for each job
  server.set("/var");
  CHECK(bound("/var"));
  CHECK_FALSE(bound("/"));
  server.set({});
  CHECK_FALSE(bound("/var"));
}

TEST_CASE("an image gets the mount points that it lacks", "[binds]") {
  const test::TempDir folder;
  ImageStore store(folder.path() / "cache");
  StoredImage image;
  image.rootfs = folder.path() / "rootfs";
  make_directories(image.rootfs / "there");
  const fs::path file = folder.write("file", "");
  make_mount_points(image,
                    {{folder.path(), "/there"},
                     {folder.path(), "/data/set"},
                     {file, "/etc/settings"},
                     {folder.path(), "/dev/shm"}},
                    store);
  CHECK(fs::is_directory(image.rootfs / "data/set"));
  CHECK(fs::is_regular_file(image.rootfs / "etc/settings"));
  CHECK_FALSE(fs::exists(image.rootfs / "dev"));  // the host's is used
}

TEST_CASE("a bind is a folder, optionally another one inside, optionally read-only", "[binds]") {
  CHECK(parse_bind("/data") == Bind{"/data", "/data", false});
  CHECK(parse_bind("/data:ro") == Bind{"/data", "/data", true});
  CHECK(parse_bind("/site:/data") == Bind{"/site", "/data", false});
  CHECK(parse_bind("/site:/data:ro") == Bind{"/site", "/data", true});
  CHECK(parse_bind("ro") == Bind{"ro", "ro", false});
  CHECK(bind_text({"/site", "/data", true}) == "/site:/data:ro");
  CHECK(bind_text({"/site", "/data", false}) == "/site:/data");
}
