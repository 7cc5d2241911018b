#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/container/container_environment.h"
#include "engine/container/tool.h"
#include "engine/container/udocker_engine.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;

/// Returns the environment of a step that declares `declared`, in an image that sets `image`.
Environment environment(const Environment& declared, const Environment& image,
                        const std::vector<std::string>& callers) {
  ContainerJob job;
  job.directory = "/runs/w-1/work";
  job.environment = declared;
  return container_environment(job, image, callers, "ann");
}

}  // namespace

TEST_CASE("a container gets the caller's variables that give a rank its place, and no others",
          "[container]") {
  const Environment inside =
      environment({}, {},
                  {"SECRET=s", "PYTHONPATH=/site", "SLURM_PROCID=1", "OMPI_COMM_WORLD_RANK=1",
                   "PMIX_RANK=1", "PMI_RANK=1", "CUDA_VISIBLE_DEVICES=0", "HOME=/home/ann"});
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  CHECK(
      inside ==
      Environment{{"SLURM_PROCID", "1"},
                  {"OMPI_COMM_WORLD_RANK", "1"},
                  {"PMIX_RANK", "1"},
                  {"PMI_RANK", "1"},
                  {"CUDA_VISIBLE_DEVICES", "0"},
                  {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
                  {"HOME", "/runs/w-1/work"},
                  {"USER", "ann"},
                  {"LOGNAME", "ann"},
                  {"TMPDIR", inside.at("TMPDIR")},
                  {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + own}});
}

TEST_CASE("runc's output does not go through udocker, which would drop its end", "[container]") {
  const test::TempDir folder;
  const fs::path runc =
      folder.write_program("bin/runc", "#!/bin/sh\necho out \"$@\"; echo err >&2; echo open >&3\n");
  const fs::path printed = folder.write("printed", "before\n");
  const int status = test::in_child([&] {
    ::setenv("PATH", runc.parent_path().c_str(), 1);
    const int file = ::open(printed.c_str(), O_WRONLY | O_APPEND);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    const auto variables = udocker_engine("R1", folder.path(), folder.path());
    Command udocker;
    udocker.argv = {variables.at(0).substr(variables.at(0).find('=') + 1), "run"};
    const Output copied = run(udocker, OutputOptions{.collect_errors = true});
    return copied.text == "open\n" && copied.errors.empty() ? copied.status.code : 99;
  });
  CHECK(status == 0);
  CHECK(read_file(printed) == "before\nout run\nerr\n");
}

TEST_CASE("udocker brings its own runc if PATH has none", "[container]") {
  const test::TempDir folder;
  const int status = test::in_child([&] {
    ::setenv("PATH", folder.path().c_str(), 1);
    ::unsetenv("UDOCKER_USE_RUNC_EXECUTABLE");
    return udocker_engine("R1", folder.path(), folder.path()).empty() ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("a runc that the user names for udocker is used, and a wrapper is private to its owner",
          "[container]") {
  const test::TempDir folder;
  const fs::path runc = folder.write_program("bin/runc", "#!/bin/sh\n");
  const int status = test::in_child([&] {
    ::setenv("PATH", runc.parent_path().c_str(), 1);
    const int file = ::open("/dev/null", O_WRONLY);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    const bool has_wrapper = !udocker_engine("R1", folder.path(), folder.path()).empty();
    ::setenv("UDOCKER_USE_RUNC_EXECUTABLE", "/opt/runc", 1);
    return has_wrapper && udocker_engine("R1", folder.path(), folder.path()).empty() ? 0 : 1;
  });
  CHECK(status == 0);
  CHECK(fs::status(folder.path() / "runc").permissions() == fs::perms(0700));
}

TEST_CASE("a step's variables override its rank's, and those override the image's", "[container]") {
  const Environment inside =
      environment({{"OMPI_MCA_btl", "self"}, {"LANG", "C.UTF-8"}},
                  {{"LANG", "de_DE"}, {"PMIX_RANK", "7"}, {"HOME", "/root"}, {"PATH", "/opt/bin"}},
                  {"OMPI_MCA_btl=tcp", "PMIX_RANK=1"});
  CHECK(inside.at("OMPI_MCA_btl") == "self");
  CHECK(inside.at("LANG") == "C.UTF-8");
  CHECK(inside.at("PMIX_RANK") == "1");
  CHECK(inside.at("HOME") == "/runs/w-1/work");
  CHECK(inside.at("PATH").starts_with("/opt/bin:/"));  // and dlflow itself at its end
}

TEST_CASE("a changed variable is there once, with its new value", "[container]") {
  const test::Variable first("DLFLOW_CHANGED", "before");
  const test::Variable second("DLFLOW_CHANGED_TOO", "stays");
  const std::vector<std::string> changed = changed_environment({"DLFLOW_CHANGED=after"});
  CHECK(std::count(changed.begin(), changed.end(), "DLFLOW_CHANGED=after") == 1);
  CHECK(std::count(changed.begin(), changed.end(), "DLFLOW_CHANGED=before") == 0);
  CHECK(std::count(changed.begin(), changed.end(), "DLFLOW_CHANGED_TOO=stays") == 1);
}

TEST_CASE("a container's user is the user of this process", "[container]") {
  Command id;
  id.argv = {"/usr/bin/id", "-un"};
  id.environment = current_environment();
  CHECK(user_name() == trim(run(id, OutputOptions{}).text));

  // Without `id` the variable counts, or else the number.
  const test::TempDir folder;
  folder.write_program("id", "#!/bin/sh\nexit 1\n");
  const test::Variable path("PATH", folder.path());
  const test::Variable user("USER", "somebody");
  CHECK(user_name() == "somebody");
  user.set({});
  CHECK(user_name() == std::to_string(::geteuid()));
}

TEST_CASE("the NVIDIA driver and its libraries are seen at their places, and nowhere else",
          "[container]") {
  const test::TempDir folder;
  CHECK(nvidia_driver(folder.path()).empty());
  folder.write("sys/module/nvidia/version", "535.104.05\n");
  CHECK(nvidia_driver(folder.path()) == "535.104.05");
  folder.write("sys/module/nvidia/version", "../../x\n");
  CHECK(nvidia_driver(folder.path()).empty());

  CHECK_FALSE(has_cuda_library(folder.path()));
  folder.write("usr/lib64/libcuda.so.1", "");  // an empty file that was bound there
  CHECK_FALSE(has_cuda_library(folder.path()));
  folder.write("usr/lib64/libcuda.so.535.104.05", "ELF");
  CHECK(has_cuda_library(folder.path()));
}

TEST_CASE("a GPU step under udocker runs in the container that has the driver", "[container]") {
  const test::TempDir folder;
  folder.write_program("proot", "#!/bin/sh\n");
  const test::Variable path("PATH", test::path_with(folder.path()));
  Invocation call{{"udocker"}, {"UDOCKER_DIR=/cache/images/aa/udocker-P1-nvidia-535"}};
  add_udocker_engine(call, "P1", folder.path(), folder.path());
  REQUIRE(call.environment.size() == 3);
  CHECK(call.environment.back() == "UDOCKER_DIR=/cache/images/aa/udocker-P1-nvidia-535");
}

TEST_CASE("without proot in PATH, udocker gets the one that `udocker install` installed",
          "[container]") {
  const test::TempDir folder;
  const test::Variable path("PATH", folder.path());
  const test::Variable home("HOME", folder.path() / "home");
  const test::Variable own("UDOCKER_DIR", {});
  for (const char* const mode : {"P1", "R1"}) {
    CHECK(udocker_engine(mode, folder.path(), folder.path()).empty());
  }
  folder.write("home/.udocker/bin/proot-x86_64", "ELF");
  folder.write("other/bin/proot-x86_64", "ELF");
  const std::string at_home = "UDOCKER_BIN=" + (folder.path() / "home/.udocker/bin").string();
  for (const char* const mode : {"P1", "R1"}) {
    CHECK(udocker_engine(mode, folder.path(), folder.path()) == std::vector{at_home});
  }
  own.set(folder.path() / "other");
  CHECK(udocker_engine("P1", folder.path(), folder.path()) ==
        std::vector{"UDOCKER_BIN=" + (folder.path() / "other/bin").string()});
  const test::Variable programs("UDOCKER_BIN", "/elsewhere");
  CHECK(udocker_engine("P1", folder.path(), folder.path()).empty());
}

}  // namespace dlflow
