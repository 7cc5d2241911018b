#include "steps/stage_out/stage_out.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>
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
using namespace std::chrono_literals;

TEST_CASE("files and folders are sent like with cp, and listed in a manifest", "[stage_out]") {
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

struct Ended {
  int status = 0;
  std::string said;
};

/// Runs the step and returns its output on `descriptor`.
Ended run_and_hear(int descriptor, const TempDir& folder) {
  std::fflush(stdout);
  const FileDescriptor before(::dup(descriptor));
  const std::string file = folder.path() / "said";
  const FileDescriptor into(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ::dup2(into.get(), descriptor);
  const int status = stage_out_main();
  std::fflush(stdout);
  ::dup2(before.get(), descriptor);
  return {status, read_file(file)};
}

/// The error message of the step, which must fail.
std::string failure(const TempDir& folder) {
  const Ended ended = run_and_hear(STDERR_FILENO, folder);
  CHECK(ended.status == 1);
  return ended.said;
}

/// The last line of its metrics.
Json last_line(const StepFixture& step) {
  const std::string text = read_file(step.folder().path() / "metrics.jsonl");
  const size_t begin = text.rfind('\n', text.size() - 2);
  return Json::parse(text.substr(begin == text.npos ? 0 : begin + 1));
}

}  // namespace

TEST_CASE("files that cannot be sent are refused with the reason, and nothing is sent",
          "[stage_out]") {
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
      {{{"from", 7}, {"to", to}}, "from: must be a path, or a list of paths"},
  };
  for (const auto& [with, reason] : bad) {
    CAPTURE(with.dump());
    const StepFixture step(with);
    CHECK_THAT(failure(results), Catch::Contains(reason));
    CHECK_FALSE(fs::exists(results.path() / "to"));
    CHECK(fs::is_empty(step.outputs()));
  }
}

TEST_CASE("the log and the metrics count sent and existing files", "[stage_out]") {
  const TempDir results;
  const TempDir archive;
  const TempDir log;
  results.write("set/a", "A");
  const StepFixture step(
      {{"from", (results.path() / "set").string()}, {"to", "file://" + archive.path().string()}});
  CHECK(run_and_hear(STDOUT_FILENO, log).said == "set/a: 1 B\n");
  CHECK(last_line(step) == Json({{"bytes", 1}, {"total_bytes", 1}, {"message", "1 file sent"}}));

  results.write("set/b", "BB");
  CHECK(run_and_hear(STDOUT_FILENO, log).said == "set/a: already exists\nset/b: 2 B\n");
  CHECK(last_line(step) == Json({{"bytes", 3},
                                 {"total_bytes", 3},
                                 {"message", "1 of 2 files sent, the others were already there"}}));
  CHECK_FALSE(fs::exists(step.outputs() / ".sending"));
}

TEST_CASE("a stopped step keeps its sent files, and asks for another pass", "[stage_out]") {
  const int signal = GENERATE(SIGTERM, SIGUSR1);
  const TempDir results;
  const TempDir archive;
  const TempDir log;
  results.write("a", "A");
  results.write("b", std::string(1000, 'b'));
  // The bandwidth delays the transfer until the signal comes.
  const StepFixture step(
      {{"from", {(results.path() / "a").string(), (results.path() / "b").string()}},
       {"to", "file://" + archive.path().string()},
       {"parallel", 1},
       {"bandwidth", 10}});
  std::jthread stopper([&] {
    while (!fs::exists(archive.path() / ".b.dlflow-part")) std::this_thread::sleep_for(1ms);
    CHECK(read_file(log.path() / "said") == "a: 1 B\n");  // readers of the log see it at once
    ::kill(::getpid(), signal);
  });
  const Ended ended = run_and_hear(STDOUT_FILENO, log);
  CHECK(ended.status == 75);
  CHECK_THAT(ended.said, Catch::EndsWith("stopped; what was sent so far is kept\n"));
  CHECK(read_file(archive.path() / "a") == "A");
  CHECK_FALSE(fs::exists(step.outputs() / "SHA256SUMS"));
  CHECK_FALSE(fs::exists(step.outputs() / ".sending"));
}
