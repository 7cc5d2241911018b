#include "engine/container/runtime.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "engine/model/profile_shape.h"
#include "tests/support/catch.h"

namespace dlflow {
namespace {

using Words = std::vector<std::string>;

/// A container with two binds, one of them read-only and elsewhere.
Container container(const std::string& program, bool gpus = false) {
  Container result;
  result.command = {program};
  result.mode = "P1";
  result.image = "/cache/images/aa/rootfs";
  result.binds = {{"/runs/w-1", "/runs/w-1"}, {"/site/data", "/data", true}};
  result.scratch = "/tmp/s";
  result.directory = "/runs/w-1/steps/a/attempt-1/work";
  result.gpus = gpus;
  result.uid = 1001;
  result.gid = 1002;
  result.user = "ann";
  result.arguments = {"--site-flag"};
  result.program = {"/runs/w-1/bin/dlflow", "container-exec", "/runs/w-1/rank"};
  return result;
}

}  // namespace

// The golden command lines. Each was compared with the tool's documentation and, if the tool can be
// installed here, is run by tests/container.

TEST_CASE("an image that is being built is writable for its root user, who is the caller",
          "[container]") {
  const auto building = [](const std::string& program) {
    Container result = container(program);
    result.building = true;
    return result;
  };
  const auto has = [](const Words& argv, const Words& words) {
    return !std::ranges::search(argv, words).empty();
  };
  const Words bwrap = invoke_bubblewrap(building("bwrap")).argv;
  CHECK(has(bwrap, {"--unshare-user", "--uid", "0", "--gid", "0", "--bind",
                    "/cache/images/aa/rootfs", "/"}));
  CHECK_FALSE(has(bwrap, {"/etc/passwd"}));
  CHECK(has(invoke_charliecloud(building("ch-run")).argv, {"--write", "--uid=0", "--gid=0"}));
  const Words podman = invoke_podman(building("podman")).argv;
  CHECK_FALSE(has(podman, {"--read-only"}));
  CHECK_FALSE(has(podman, {"--userns=keep-id"}));
  CHECK(has(invoke_apptainer(building("apptainer")).argv, {"--writable", "--fakeroot"}));
  const Words udocker = invoke_udocker(building("udocker")).argv;
  CHECK(has(udocker, {"--user=0:0"}));
  CHECK_FALSE(has(udocker, {"--hostauth"}));
}

TEST_CASE("bubblewrap gets a root, the mounts over it, and a command", "[container]") {
  CHECK(invoke_bubblewrap(container("bwrap")).argv == Words{"bwrap",
                                                            "--ro-bind",
                                                            "/cache/images/aa/rootfs",
                                                            "/",
                                                            "--dev-bind",
                                                            "/dev",
                                                            "/dev",
                                                            "--bind",
                                                            "/proc",
                                                            "/proc",
                                                            "--ro-bind",
                                                            "/sys",
                                                            "/sys",
                                                            "--ro-bind-try",
                                                            "/etc/hosts",
                                                            "/etc/hosts",
                                                            "--ro-bind-try",
                                                            "/etc/resolv.conf",
                                                            "/etc/resolv.conf",
                                                            "--ro-bind-try",
                                                            "/etc/passwd",
                                                            "/etc/passwd",
                                                            "--ro-bind-try",
                                                            "/etc/group",
                                                            "/etc/group",
                                                            "--bind",
                                                            "/runs/w-1",
                                                            "/runs/w-1",
                                                            "--ro-bind",
                                                            "/site/data",
                                                            "/data",
                                                            "--chdir",
                                                            "/runs/w-1/steps/a/attempt-1/work",
                                                            "--die-with-parent",
                                                            "--site-flag",
                                                            "--",
                                                            "/runs/w-1/bin/dlflow",
                                                            "container-exec",
                                                            "/runs/w-1/rank"});
}

TEST_CASE("charliecloud starts with a user and without the host's variables", "[container]") {
  const Invocation call = invoke_charliecloud(container("ch-run"));
  CHECK(call.argv == Words{"ch-run", "--unset-env=*", "--bind=/runs/w-1:/runs/w-1",
                           "--bind=/site/data:/data", "--cd=/runs/w-1/steps/a/attempt-1/work",
                           "--site-flag", "/cache/images/aa/rootfs", "--", "/runs/w-1/bin/dlflow",
                           "container-exec", "/runs/w-1/rank"});
  CHECK(call.environment == Words{"USER=ann"});
}

TEST_CASE("podman runs on the root folder as the caller", "[container]") {
  CHECK(invoke_podman(container("podman", true)).argv ==
        Words{"podman",
              "--root=/tmp/s/root",
              "--runroot=/tmp/s/run",
              "--tmpdir=/tmp/s/tmp",
              "--storage-driver=vfs",
              "run",
              "--rm",
              "--read-only",
              "--userns=keep-id",
              "--network=host",
              "--pid=host",
              "--security-opt=label=disable",
              "--log-driver=none",
              "--volume=/runs/w-1:/runs/w-1",
              "--volume=/site/data:/data:ro",
              "--workdir=/runs/w-1/steps/a/attempt-1/work",
              "--device=nvidia.com/gpu=all",
              "--site-flag",
              "--rootfs",
              "/cache/images/aa/rootfs",
              "/runs/w-1/bin/dlflow",
              "container-exec",
              "/runs/w-1/rank"});
  CHECK(invoke_podman(container("podman")).environment == Words{"XDG_RUNTIME_DIR=/tmp/s"});
}

TEST_CASE("podman maps no user ids for root, since it has no such option then", "[container]") {
  Container root = container("podman");
  root.uid = 0;
  const Words argv = invoke_podman(root).argv;
  CHECK(std::ranges::find(argv, "--read-only") != argv.end());
  CHECK(std::ranges::find(argv, "--userns=keep-id") == argv.end());
}

TEST_CASE("docker runs an imported image as the caller", "[container]") {
  Container wanted = container("docker", true);
  wanted.image = "dlflow:aa";
  CHECK(invoke_docker(wanted).argv ==
        Words{"docker", "run", "--rm", "--read-only", "--pull=never", "--network=host",
              "--pid=host", "--ipc=host", "--log-driver=none", "--user=1001:1002",
              "--volume=/runs/w-1:/runs/w-1", "--volume=/site/data:/data:ro",
              "--workdir=/runs/w-1/steps/a/attempt-1/work", "--gpus=all", "--site-flag",
              "dlflow:aa", "/runs/w-1/bin/dlflow", "container-exec", "/runs/w-1/rank"});
}

TEST_CASE("apptainer and singularity run a sandbox without the caller's home", "[container]") {
  CHECK(invoke_apptainer(container("singularity", true)).argv ==
        Words{"singularity", "--silent", "exec", "--cleanenv", "--no-home", "--bind",
              "/runs/w-1:/runs/w-1", "--bind", "/site/data:/data:ro", "--pwd",
              "/runs/w-1/steps/a/attempt-1/work", "--nv", "--site-flag", "/cache/images/aa/rootfs",
              "/runs/w-1/bin/dlflow", "container-exec", "/runs/w-1/rank"});
}

TEST_CASE("pyxis becomes options of srun", "[container]") {
  Container wanted = container("srun");
  wanted.command = {"srun", "--mpi=pmix", "-n", "2"};
  wanted.image = "/cache/images/aa/image.sqsh";
  CHECK(invoke_pyxis(wanted).argv ==
        Words{"srun", "--mpi=pmix", "-n", "2", "--container-image=/cache/images/aa/image.sqsh",
              "--container-mounts=/runs/w-1:/runs/w-1,/site/data:/data:ro",
              "--container-workdir=/runs/w-1/steps/a/attempt-1/work", "--container-readonly",
              "--no-container-mount-home", "--no-container-remap-root", "--no-container-entrypoint",
              "--site-flag", "/runs/w-1/bin/dlflow", "container-exec", "/runs/w-1/rank"});
}

TEST_CASE("udocker's P modes run on the root folder, the others in a container", "[container]") {
  const Invocation call = invoke_udocker(container("udocker"));
  CHECK(call.argv == Words{"udocker", "run", "--user=ann", "--hostauth",
                           "--volume=/etc/hosts:/etc/hosts", "--volume=/runs/w-1:/runs/w-1",
                           "--volume=/site/data:/data",
                           "--workdir=/runs/w-1/steps/a/attempt-1/work", "--site-flag",
                           "--location=/cache/images/aa/rootfs", "image", "/runs/w-1/bin/dlflow",
                           "container-exec", "/runs/w-1/rank"});
  CHECK(call.environment ==
        Words{"UDOCKER_LOGLEVEL=2", "UDOCKER_TARBALL=", "UDOCKER_DEFAULT_EXECUTION_MODE=P1"});

  Container runc = container("udocker");
  runc.mode = "R1";
  runc.image = "/cache/images/aa/udocker-R1";
  CHECK(invoke_udocker(runc).argv ==
        Words{"udocker", "run", "--volume=/etc/hosts:/etc/hosts", "--volume=/runs/w-1:/runs/w-1",
              "--volume=/site/data:/data", "--workdir=/runs/w-1/steps/a/attempt-1/work",
              "--site-flag", "image", "/runs/w-1/bin/dlflow", "container-exec", "/runs/w-1/rank"});
  CHECK(invoke_udocker(runc).environment.back() == "UDOCKER_DIR=/cache/images/aa/udocker-R1");
}

TEST_CASE("udocker gets the option that allows root", "[container]") {
  Container as_root = container("udocker");
  as_root.uid = 0;
  CHECK(invoke_udocker(as_root).argv[1] == "--allow-root");
}

TEST_CASE("a profile may name an existing runtime, or none", "[container]") {
  std::set<std::string> known = {"none"};
  for (const ContainerRuntime& runtime : runtimes()) known.emplace(runtime.name);
  const Field* const container = find_field(profile_shape(), "container");
  const std::vector<std::string> choices = find_field(container->shape, "runtime")->shape.choices;
  CHECK(std::set(choices.begin(), choices.end()) == known);
  CHECK(find_runtime("none") == nullptr);
}

TEST_CASE("the row of every runtime is complete", "[container]") {
  for (const ContainerRuntime& runtime : runtimes()) {
    INFO(runtime.name);
    CHECK(find_runtime(runtime.name) == &runtime);
    CHECK_FALSE(runtime.program.empty());
    CHECK_FALSE(runtime.package.empty());
    CHECK(runtime.form != nullptr);
    const Words argv = runtime.invoke(container(std::string(runtime.program))).argv;
    CHECK(std::find(argv.begin(), argv.end(), "container-exec") != argv.end());
  }
}

TEST_CASE("the documentation names every runtime", "[container]") {
  const std::string page = read_file(DLFLOW_DOCS "/user/containers.md");
  const std::string profile = read_file(DLFLOW_DOCS "/../cluster-profiles/local.yaml");
  for (const ContainerRuntime& runtime : runtimes()) {
    const std::string name(runtime.name);
    const auto row = page.find("| `" + name + "`"), second = page.find(", `" + name + "` |");
    INFO(name);
    CHECK(std::min(row, second) != std::string::npos);
    CHECK_THAT(profile, Catch::Contains(name));
  }
}

}  // namespace dlflow
