#include "steps/stage_out/stage_out.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "base/file.h"
#include "base/handle.h"
#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/unit/steps/step_fixture.h"

using namespace dlflow;
using dlflow::steps::stage_out_main;
using test::StepFixture;
using test::TempDir;
namespace fs = std::filesystem;

TEST_CASE("files and folders are sent as cp would, and told in a manifest", "[stage_out]") {
  const TempDir results;
  const auto file = results.write("model", "M");
  results.write("set/a/b", "B");
  const TempDir archive;
  const StepFixture step({{"from", {file.string(), (results.path() / "set").string() + "/"}},
                          {"to", "file://" + archive.path().string() + "/run%201"}});
  REQUIRE(stage_out_main() == 0);
  CHECK(read_file(archive.path() / "run 1/model") == "M");
  CHECK(read_file(archive.path() / "run 1/set/a/b") == "B");
  CHECK(read_file(step.outputs() / "SHA256SUMS") ==
        sha256_hex("M") + "  model\n" + sha256_hex("B") + "  set/a/b\n");
  CHECK(step.outputs_json() == Json({{"manifest", "SHA256SUMS"}}));
  CHECK(step.summary() == Json({{"bytes", 2}, {"files", 2}, {"sent", 2}}));

  REQUIRE(stage_out_main() == 0);
  CHECK(step.summary()["sent"] == 0);
  archive.write("run 1/model", "X");
  REQUIRE(stage_out_main() == 0);
  CHECK(step.summary()["sent"] == 1);
  CHECK(read_file(archive.path() / "run 1/model") == "M");
}

namespace {

/// What the step says when it fails.
std::string failure(const TempDir& folder) {
  const FileDescriptor before(::dup(STDERR_FILENO));
  const std::string file = folder.path() / "stderr";
  const FileDescriptor into(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ::dup2(into.get(), STDERR_FILENO);
  const int status = stage_out_main();
  ::dup2(before.get(), STDERR_FILENO);
  CHECK(status == 1);
  return read_file(file);
}

}  // namespace

TEST_CASE("what cannot be sent is refused for its reason, and nothing is left", "[stage_out]") {
  const TempDir results;
  const std::string file = results.write("x", "1");
  const std::string same_name = results.write("d/x", "2");
  const std::string to = "file://" + (results.path() / "to").string();
  const std::string none = results.path() / "none";
  const std::string no_place = " cannot be written to; give a file://";
  const std::vector<std::pair<Json, std::string>> bad = {
      {{{"from", none}, {"to", to}}, none},
      {{{"from", {file, same_name}}, {"to", to}}, "'x'"},
      {{{"from", file}, {"to", "http://h/x/"}}, "to: http://h/x/" + no_place},
      {{{"from", file}, {"to", "git+https://h/x"}}, no_place},
      {{{"from", file}, {"to", "hf://a/b"}}, no_place},
      {{{"from", file}, {"to", "results"}}, "results"},
      {{{"from", 7}, {"to", to}}, "from: is a path, or a list of paths"},
  };
  for (const auto& [with, reason] : bad) {
    CAPTURE(with.dump());
    const StepFixture step(with);
    CHECK_THAT(failure(results), Catch::Contains(reason));
    CHECK_FALSE(fs::exists(results.path() / "to"));
    CHECK(fs::is_empty(step.outputs()));
  }
}
