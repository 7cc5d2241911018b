#include "engine/supervisor/watch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kWatchToken = 7;

/// Options whose grace times never end.
WatchOptions without_time() {
  WatchOptions options;
  options.time_to_save = 60s;
  options.time_to_end = 10s;
  options.now = [still = std::chrono::steady_clock::now()] { return still; };
  return options;
}

/// A script in `folder` that a child process watches.
class WatchedScript {
 public:
  WatchedScript(const fs::path& folder, const std::string& script, const WatchOptions& options)
      : folder_(folder), child_(::fork()) {
    if (child_ != 0) return;
    Watcher watcher(kWatchToken);
    Command command;
    command.argv = {"/bin/sh", "-c", script};
    command.environment = current_environment();
    command.directory = folder_;
    command.own_group = true;
    const Watched result = watcher.watch(start(command), options);
    if (result.cause != StopCause::None) make("was_asked");
    ::_exit(result.exit.code);
  }
  WatchedScript(const WatchedScript&) = delete;
  WatchedScript& operator=(const WatchedScript&) = delete;
  ~WatchedScript() {
    if (child_ > 0) ::kill(child_, SIGKILL);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
  }

  bool has(const char* file) const { return fs::exists(folder_ / file); }
  void make(const char* file) const { write_file_atomic(folder_ / file, ""); }
  void wait_for(const char* file) const {
    for (int i = 0; i < 3000 && !has(file); ++i) std::this_thread::sleep_for(10ms);
    REQUIRE(has(file));
  }
  void request(uint64_t token) const { CHECK(request_stop(identify(child_).value(), token)); }

  void signal(int number) const { CHECK(::kill(child_, number) == 0); }

  /// Returns the script's exit status, or nothing if it goes on.
  std::optional<int> exit() {
    for (int i = 0; i < 3000; ++i) {
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        child_ = -1;
        return WEXITSTATUS(status);
      }
      std::this_thread::sleep_for(10ms);
    }
    return std::nullopt;
  }

 private:
  fs::path folder_;
  pid_t child_;
};

}  // namespace

TEST_CASE("a second request to end kills at once", "[watch]") {
  const test::TempDir folder;
  WatchedScript script(folder.path(),
                       "trap '' USR1 TERM; touch ready; while :; do sleep 0.01; done",
                       without_time());
  script.wait_for("ready");
  script.request(kWatchToken);
  script.request(kWatchToken);
  CHECK(script.exit() == 128 + SIGKILL);
}

TEST_CASE("Grid Engine's deletion of a job is one request to end, even if repeated", "[watch]") {
  const test::TempDir folder;
  WatchedScript script(folder.path(),
                       "trap 'touch told' USR1; touch ready; until [ -e go ]; do sleep 0.01; done; "
                       "exit 0",
                       without_time());
  script.wait_for("ready");
  script.signal(SIGUSR2);
  script.wait_for("told");
  script.signal(SIGUSR2);
  script.make("go");
  CHECK(script.exit() == 0);
}

TEST_CASE("one request to end does not kill", "[watch]") {
  const test::TempDir folder;
  WatchedScript script(folder.path(),
                       "trap 'touch told' USR1; touch ready; until [ -e go ]; do sleep 0.01; done; "
                       "exit 0",  // otherwise the status of the sleep that USR1 may have ended
                       without_time());
  script.wait_for("ready");
  script.request(kWatchToken);
  script.wait_for("told");
  script.make("go");
  CHECK(script.exit() == 0);
}

TEST_CASE("a program that ends early by itself was not asked to end", "[watch]") {
  const test::TempDir folder;
  WatchOptions options;
  options.walltime = 60s;
  options.time_to_end = 10s;
  WatchedScript script(folder.path(), "sleep 0.2; exit 3", options);
  CHECK(script.exit() == 3);
  CHECK_FALSE(script.has("was_asked"));
}

TEST_CASE("nothing is polled between the signal to save and the end of its time", "[watch]") {
  const test::TempDir folder;
  WatchOptions options = without_time();
  options.now = [still = std::chrono::steady_clock::now(), path = folder.path(),
                 looks = 0]() mutable {
    if (fs::exists(path / "told") && ++looks == 1000) write_file_atomic(path / "busy", "");
    return still;
  };
  WatchedScript script(folder.path(),
                       "trap 'touch told' USR1; touch ready; i=0; "
                       "until [ -e busy ] || { [ -e told ] && [ $i -eq 50 ]; }; do "
                       "sleep 0.01; [ -e told ] && i=$((i+1)); done; exit 0",
                       options);
  script.wait_for("ready");
  script.request(kWatchToken);
  CHECK(script.exit() == 0);
  CHECK_FALSE(script.has("busy"));
}

TEST_CASE("a request to end counts even if a warning came after it", "[watch]") {
  const int status = test::in_child([] {
    Watcher watcher(kWatchToken);
    ::raise(SIGINT);
    const bool requested = watcher.stop_requested() == StopCause::Requested;
    ::raise(SIGUSR1);
    watcher.stop_requested();
    WatchOptions options = without_time();
    options.time_to_save = 0s;
    options.walltime = 60s;
    Command command;
    command.argv = {"/bin/sh", "-c", "sleep 60"};
    command.environment = current_environment();
    command.own_group = true;
    const Watched result = watcher.watch(start(command), options);
    return requested && result.exit.code != 0 ? 3 : 1;
  });
  CHECK(status == 3);
}

TEST_CASE("a cancel of a job that is being preempted counts as a cancel", "[watch]") {
  const int status = test::in_child([] {
    Watcher watcher(kWatchToken);
    WatchOptions options = without_time();
    options.on_terminate = [] { ::raise(SIGINT); };
    Command command;
    command.argv = {"/bin/sh", "-c",
                    "trap '' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"};
    command.environment = current_environment();
    command.own_group = true;
    const Watched result = watcher.watch(start(command), options);
    return result.cause == StopCause::Requested ? 3 : 1;
  });
  CHECK(status == 3);
}

TEST_CASE("suspended time of a job is not counted against its walltime", "[watch]") {
  const test::TempDir folder;
  WatchOptions options;
  options.walltime = 5min;
  // An hour passes while the watcher waits, as for a stopped process.
  options.now = [path = folder.path(), looks = 0]() mutable {
    const auto now = std::chrono::steady_clock::now();
    if (!fs::exists(path / "suspended")) return now;
    if (++looks == 9) write_file_atomic(path / "looked", "");  // two rounds later
    return now + 1h;
  };
  WatchedScript script(folder.path(), "touch ready; until [ -e go ]; do sleep 0.01; done", options);
  script.wait_for("ready");
  script.make("suspended");
  while (!script.has("looked")) {
    script.request(kWatchToken + 1);  // wakes it, but is for another
    std::this_thread::sleep_for(1ms);
  }
  script.make("go");
  CHECK(script.exit() == 0);
}

TEST_CASE("a request to save reaches only processes that handle it, in any session", "[watch]") {
  const test::TempDir folder;
  folder.write("save.sh",
               "trap 'touch saved; exit 0' USR1; touch ready; while :; do sleep 0.01; done");
  const std::string script = GENERATE("setsid -w sh save.sh | cat", "timeout 60 sh save.sh",
                                      "sh -c 'sh save.sh; true'", "sleep 60 & sh save.sh");
  WatchedScript watched(folder.path(), script, without_time());
  watched.wait_for("ready");
  watched.request(kWatchToken);
  CHECK(watched.exit() == 0);
  CHECK(watched.has("saved"));
}

TEST_CASE("a handler that is installed after the request to save is asked then", "[watch]") {
  const test::TempDir folder;
  WatchOptions options = without_time();
  options.now = std::chrono::steady_clock::now;
  options.walltime = 60s;
  options.on_save_request = [path = folder.path()] { write_file_atomic(path / "asked", ""); };
  WatchedScript script(folder.path(),
                       "touch ready; until [ -e asked ]; do sleep 0.01; done; sleep 0.1; "
                       "trap 'touch saved; exit 0' USR1; while :; do sleep 0.01; done",
                       options);
  script.wait_for("ready");
  script.signal(SIGUSR1);  // the walltime is near
  CHECK(script.exit() == 0);
  CHECK(script.has("saved"));
}

TEST_CASE("a request to end does not wait for a program in which nothing saves", "[watch]") {
  const test::TempDir folder;
  WatchOptions options = without_time();
  options.time_to_save = 1h;
  options.now = std::chrono::steady_clock::now;
  WatchedScript script(folder.path(), "touch ready; sleep 60", options);
  script.wait_for("ready");
  script.request(kWatchToken);
  CHECK(script.exit() == 128 + SIGTERM);
}

TEST_CASE("a launcher is asked by its signal once the setup lines have ended", "[watch]") {
  const test::TempDir folder;
  WatchOptions options = without_time();
  options.now = std::chrono::steady_clock::now;
  options.has_relay = true;
  options.save_signal = SIGUSR2;
  WatchedScript script(
      folder.path(),
      "touch ready; sleep 0.5; "
      "exec sh -c 'trap \"touch saved; exit 0\" USR2; while :; do sleep 0.01; done'",
      options);
  script.wait_for("ready");
  script.request(kWatchToken);
  CHECK(script.exit() == 0);
  CHECK(script.has("saved"));
}
