#include "engine/backend/local.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/packet.h"
#include "base/process.h"
#include "engine/backend/gone_host.h"
#include "engine/backend/launcher_client.h"
#include "engine/backend/launcher_protocol.h"
#include "engine/supervisor/claim.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace fs = std::filesystem;

namespace {

/// One request as received by the launcher.
struct Request {
  LaunchHeader header;
  std::optional<std::string> gpus;
  fs::path attempt;
  size_t locks = 0;
};

/// The launcher of a backend, played by the test.
class Launcher {
 public:
  Launcher() : listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const std::string path = folder_.path() / "launcher";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.data(), path.size());
    REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0);
    REQUIRE(::listen(listener_.get(), 4) == 0);
    ::setenv("FAKE_LAUNCHER", path.c_str(), 1);
  }
  ~Launcher() { ::unsetenv("FAKE_LAUNCHER"); }

  /// Waits until a launcher was started.
  void begin() {
    process_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<char, 64> bytes{};
    std::vector<FileDescriptor> received;
    const ssize_t got = receive_packet(process_.get(), bytes, received, 0);
    REQUIRE(std::string(bytes.data(), size_t(std::max<ssize_t>(0, got))) == "local-launcher");
    REQUIRE(received.size() == 1);
    socket_ = std::move(received.front());
  }

  Request next() {
    std::array<char, kMaxPacket> bytes{};
    std::vector<FileDescriptor> locks;
    const ssize_t got = receive_packet(socket_.get(), bytes, locks, 0);
    Request request;
    REQUIRE(got >= ssize_t(sizeof request.header));
    std::memcpy(&request.header, bytes.data(), sizeof request.header);
    std::string rest(bytes.data() + sizeof request.header, size_t(got) - sizeof request.header);
    if (request.header.gpus_length >= 0) {
      request.gpus = rest.substr(0, size_t(request.header.gpus_length));
      rest = rest.substr(size_t(request.header.gpus_length));
    }
    request.attempt = rest;
    request.locks = locks.size();
    return request;
  }

  /// Whether an unread request has arrived.
  bool has_request() const {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }

  void report(uint64_t token, NewsKind kind, int32_t status = 0) const {
    const LauncherNews report{token, kind, status};
    REQUIRE(::send(socket_.get(), &report, sizeof report, 0) == ssize_t(sizeof report));
  }

  /// Readable when another launcher was started.
  int listener() const { return listener_.get(); }

  void die() {
    socket_.reset();
    process_.reset();
  }

  /// Ends the launcher, and prevents another start.
  void end() {
    listener_.reset();
    die();
  }

 private:
  test::TempDir folder_;
  FileDescriptor listener_;
  FileDescriptor process_;
  FileDescriptor socket_;
};

/// A process that stands for a supervisor: it lives until it is killed, and reports each request to
/// stop.
class Supervisor {
 public:
  Supervisor() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    requests_.reset(ends[0]);
    const FileDescriptor told(ends[1]);
    sigset_t set;
    sigset_t before;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGRTMIN);
    ::sigprocmask(SIG_BLOCK, &set, &before);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::setsid();
      ::close_range(3, unsigned(told.get()) - 1, 0);  // the launcher waits for their close
      ::close_range(unsigned(told.get()) + 1, ~0U, 0);
      while (true) {
        siginfo_t info{};
        if (::sigwaitinfo(&set, &info) < 0) continue;
        const uint64_t token = reinterpret_cast<uint64_t>(info.si_value.sival_ptr);
        if (::write(told.get(), &token, sizeof token) < 0) ::_exit(1);
      }
    }
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    REQUIRE(pid_ > 0);
    identity_ = identify(pid_).value();
  }
  ~Supervisor() { kill(); }

  const ProcessIdentity& identity() const { return identity_; }

  /// Returns the token of the next request to stop.
  uint64_t next_stop() const {
    uint64_t token = 0;
    REQUIRE(::read(requests_.get(), &token, sizeof token) == ssize_t(sizeof token));
    return token;
  }
  bool has_stop() const {
    pollfd waiting{requests_.get(), POLLIN, 0};
    return ::poll(&waiting, 1, 0) == 1;
  }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor requests_;
  ProcessIdentity identity_;
};

void claim(const fs::path& attempt, int pass, const ProcessIdentity& owner, uint64_t token = 0) {
  Json json = to_json(owner);
  json["token"] = token;
  fs::create_symlink(json.dump(), attempt / ("claim-" + std::to_string(pass)));
}

Machine machine(std::vector<std::string> gpus = {}) {
  return {.cores = 2, .memory_bytes = uint64_t{1} << 30, .gpus = std::move(gpus)};
}

/// A backend, its launcher, and the folder of a run.
class World {
 public:
  explicit World(Machine of = machine())
      : owned(local_backend(std::move(of), FAKE_LAUNCHER_PROGRAM)), backend(*owned) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    interrupt.reset(ends[0]);
    interrupter.reset(ends[1]);
    backend.begin(folder.path());
  }
  ~World() { launcher.end(); }  // the backend waits for its end

  Submission job(uint32_t number = 0, int pass = 1) const {
    Submission submission;
    submission.job = number;
    submission.name = JobName("job-" + std::to_string(number));
    submission.pass = pass;
    submission.job_directory = folder.path() / submission.name.text();
    make_directories(submission.job_directory / "attempt-1");
    return submission;
  }
  fs::path attempt(uint32_t number = 0) const {
    return folder.path() / ("job-" + std::to_string(number)) / "attempt-1";
  }

  /// Submits `submission` and returns the request that its launcher received.
  Request submit(const Submission& submission) {
    backend.submit(submission);
    if (!begun_) launcher.begin();
    begun_ = true;
    return launcher.next();
  }

  void record(JobState state, uint32_t number = 0) const {
    JobEvent event;
    event.state = state;
    event.at = SystemClock().now();
    AppendFile(attempt(number) / "events.jsonl").append(to_line(event));
  }

  std::vector<Update> wait(std::chrono::milliseconds timeout = 60s) {
    return backend.wait(timeout, interrupt.get());
  }

  test::TempDir folder;
  Launcher launcher;
  std::unique_ptr<Backend> owned;
  Backend& backend;
  FileDescriptor interrupt;
  FileDescriptor interrupter;

 private:
  bool begun_ = false;
};

Resources all_cores() { return {.ranks = 1, .cpus_per_rank = 2}; }

}  // namespace

TEST_CASE("a launcher is asked for a supervisor, and its report leads to the recorded states",
          "[local]") {
  World world;
  Submission job = world.job(3);
  job.resources = all_cores();
  CHECK(world.backend.has_room(all_cores()));
  const Request request = world.submit(job);
  CHECK(request.attempt == world.attempt(3));
  CHECK(request.header.pass == 1);
  CHECK_FALSE(request.gpus.has_value());  // no GPUs here: the variable stays
  CHECK_FALSE(world.backend.has_room(all_cores()));

  world.launcher.report(request.header.token + 7, NewsKind::NotStarted, EAGAIN);  // no job's
  world.record(JobState::Running, 3);
  world.launcher.report(request.header.token, NewsKind::Recorded);
  std::vector<Update> updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].job == 3);
  CHECK(updates[0].recorded);
  CHECK(updates[0].event.job == "job-3");
  CHECK(updates[0].event.attempt == 1);
  CHECK(updates[0].event.state == JobState::Running);

  world.record(JobState::Succeeded, 3);
  world.launcher.report(request.header.token, NewsKind::Recorded);
  world.launcher.report(request.header.token, NewsKind::Ended);
  updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].event.state == JobState::Succeeded);
  CHECK(world.backend.has_room(all_cores()));
  CHECK(world.wait(0ms).empty());
  world.backend.stop(3, Stop::AtOnce);  // it has ended, and stays unchanged
}

TEST_CASE("a further pass is requested by its number, and its record is read from where it ended",
          "[local]") {
  World world;
  const Request first = world.submit(world.job());
  world.record(JobState::Running);
  world.record(JobState::Queued);
  world.launcher.report(first.header.token, NewsKind::Recorded);
  CHECK(world.wait().size() == 2);
  world.launcher.report(first.header.token, NewsKind::Ended);
  const Request second = world.submit(world.job(0, 2));
  CHECK(second.header.pass == 2);
  CHECK(second.header.token != first.header.token);
  world.record(JobState::Succeeded);
  world.launcher.report(second.header.token, NewsKind::Recorded);
  const auto updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].event.state == JobState::Succeeded);
}

TEST_CASE("a supervisor that cannot be started is reported with the cause", "[local]") {
  World world;
  const Request request = world.submit(world.job());
  world.launcher.report(request.header.token, NewsKind::NotStarted, EAGAIN);
  const auto updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].event.state == JobState::Lost);
  CHECK(updates[0].event.job == "job-0");
  CHECK(updates[0].event.attempt == 1);
  CHECK(updates[0].event.node == host_name());
  CHECK(updates[0].event.reason == "cannot start its supervisor: Resource temporarily unavailable");
  CHECK_FALSE(updates[0].recorded);
  CHECK(world.wait(0ms).empty());
}

TEST_CASE("a supervisor that ended before it began is started once more", "[local]") {
  World world;
  const Request first = world.submit(world.job());
  world.launcher.report(first.header.token, NewsKind::Ended, SIGKILL);
  CHECK(world.wait(0ms).empty());
  const Request second = world.launcher.next();
  CHECK(second.attempt == first.attempt);
  CHECK(second.header.token != first.header.token);
  world.launcher.report(first.header.token, NewsKind::Ended, SIGKILL);  // late: has no effect
  CHECK(world.wait(0ms).empty());

  const auto [status, reason] = GENERATE(table<int, std::string>(
      {{SIGKILL, "its supervisor was killed by signal 9"},
       {kExitUnrecorded << 8, "its supervisor could not write its record; is the disk full?"},
       {kExitNotOurs << 8, "its supervisor was killed"}}));
  world.launcher.report(second.header.token, NewsKind::Ended, status);
  const auto updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].event.state == JobState::Lost);
  CHECK(updates[0].event.reason == reason);
  CHECK_FALSE(world.launcher.has_request());
}

TEST_CASE("each pass may have its supervisor started a second time", "[local]") {
  World world;
  const auto started_twice = [&world](const Request& first) {
    world.launcher.report(first.header.token, NewsKind::Ended, SIGKILL);
    CHECK(world.wait(0ms).empty());
    Request second = world.launcher.next();
    CHECK(second.header.pass == first.header.pass);
    return second;
  };
  const Request first = started_twice(world.submit(world.job()));
  world.record(JobState::Running);
  world.record(JobState::Queued);
  world.launcher.report(first.header.token, NewsKind::Recorded);
  CHECK(world.wait().size() == 2);
  started_twice(world.submit(world.job(0, 2)));
}

TEST_CASE("a supervisor that died with a claim is not started again", "[local]") {
  World world;
  const Request request = world.submit(world.job());
  Supervisor supervisor;
  claim(world.attempt(), 1, supervisor.identity());
  supervisor.kill();
  world.record(JobState::Running);
  world.launcher.report(request.header.token, NewsKind::Ended, SIGKILL);
  const auto updates = world.wait();
  REQUIRE(updates.size() == 2);
  CHECK(updates[0].event.state == JobState::Running);
  CHECK(updates[1].event.state == JobState::Lost);
}

TEST_CASE("a new attempt, or another job of the same number, has its own record", "[local]") {
  World world;
  const Request first = world.submit(world.job());
  world.record(JobState::Running);
  world.launcher.report(first.header.token, NewsKind::Recorded);
  world.launcher.report(first.header.token, NewsKind::NotStarted, EAGAIN);
  CHECK(world.wait().size() == 2);
  Submission next = world.job();
  SECTION("another attempt") { next.attempt = 2; }
  SECTION("another job") {
    next.name = "job-7";
    next.job_directory = world.folder.path() / "job-7";
  }
  const fs::path attempt = next.job_directory / ("attempt-" + std::to_string(next.attempt));
  make_directories(attempt);
  const Request request = world.submit(next);
  CHECK(request.attempt == attempt);
  JobEvent event;
  event.state = JobState::Succeeded;
  event.at = SystemClock().now();
  AppendFile(attempt / "events.jsonl").append(to_line(event));
  world.launcher.report(request.header.token, NewsKind::Recorded);
  const auto updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].event.state == JobState::Succeeded);
  CHECK(updates[0].event.job == next.name);
  CHECK(updates[0].event.attempt == next.attempt);
}

TEST_CASE("another supervisor that claims the pass first is watched until it ends", "[local]") {
  World world;
  const Request request = world.submit(world.job());
  Supervisor supervisor;
  claim(world.attempt(), 1, supervisor.identity());
  world.launcher.report(request.header.token, NewsKind::Ended, kExitNotOurs << 8);
  CHECK(world.wait(0ms).empty());
  supervisor.kill();
  const auto updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].event.state == JobState::Lost);
  CHECK(updates[0].event.reason == "its supervisor was killed");
  CHECK_FALSE(world.launcher.has_request());
}

TEST_CASE("cores are free as soon as the program has ended", "[local]") {
  World world;
  Submission job = world.job();
  job.resources = all_cores();
  const Request request = world.submit(job);
  CHECK(world.wait(0ms).empty());
  CHECK_FALSE(world.backend.has_room(all_cores()));
  world.launcher.report(request.header.token, NewsKind::ProgramEnded);
  CHECK(world.wait().empty());  // at once: there is room for that job
  CHECK(world.backend.has_room(all_cores()));
  world.record(JobState::Succeeded);
  world.launcher.report(request.header.token, NewsKind::Recorded);
  CHECK(world.wait().size() == 1);
  Resources more = all_cores();
  more.cpus_per_rank = 3;
  CHECK_FALSE(world.backend.has_room(more));  // they came back once
}

TEST_CASE("a job gets its GPUs with their locks, and a record keeps them", "[local]") {
  const std::string gpu = "local-test-" + std::to_string(::getpid());
  World world(machine({gpu + "-0", gpu + "-1"}));
  Submission job = world.job();
  job.resources.gpus_per_rank = 2;
  CHECK(world.backend.has_room(job.resources));
  const Request request = world.submit(job);
  CHECK(request.gpus == gpu + "-0," + gpu + "-1");
  CHECK(request.locks == 2);
  CHECK(read_file(world.attempt() / "gpus") == gpu + "-0," + gpu + "-1");
  const Request without = world.submit(world.job(1));
  CHECK(without.gpus == "");
  CHECK(without.locks == 0);
  CHECK_FALSE(fs::exists(world.attempt(1) / "gpus"));

  // Another engine that takes over the run finds their owner.
  Supervisor supervisor;
  claim(world.attempt(), 1, supervisor.identity());
  const auto other = local_backend(machine({gpu + "-0", gpu + "-1"}), FAKE_LAUNCHER_PROGRAM);
  CHECK(other->recover(job) == Recovery::Watched);
  Resources one;
  one.gpus_per_rank = 1;
  CHECK_FALSE(other->has_room(one));
}

TEST_CASE("only jobs that an earlier engine handed over are recovered", "[local]") {
  World world;
  Submission job = world.job(0, 2);
  CHECK(world.backend.recover(job) == Recovery::NotStarted);
  Supervisor supervisor;
  claim(world.attempt(), 1, supervisor.identity());
  CHECK(world.backend.recover(job) == Recovery::NotStarted);  // this record is of the previous pass
  claim(world.attempt(), 2, supervisor.identity());
  job.resources = all_cores();
  CHECK(world.backend.recover(job) == Recovery::Watched);
  CHECK_FALSE(world.backend.has_room(all_cores()));
  supervisor.kill();
  const auto updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].event.state == JobState::Lost);
  CHECK(world.backend.has_room(all_cores()));
}

TEST_CASE("a job recovered in a later pass is lost with its supervisor, not started", "[local]") {
  World world;
  Supervisor supervisor;
  const Submission job = world.job();
  claim(world.attempt(), 2, supervisor.identity());
  CHECK(world.backend.recover(job) == Recovery::Watched);
  supervisor.kill();
  const auto updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].event.state == JobState::Lost);
  pollfd launcher{world.launcher.listener(), POLLIN, 0};
  CHECK(::poll(&launcher, 1, 0) == 0);  // no launcher was asked to start it again
}

TEST_CASE("a job whose supervisor is dead has vanished, unless its end is on record", "[local]") {
  World world;
  Supervisor supervisor;
  claim(world.attempt(world.job().job), 1, supervisor.identity());
  supervisor.kill();
  CHECK(world.backend.recover(world.job()) == Recovery::Vanished);
  world.record(JobState::Succeeded);
  CHECK(world.backend.recover(world.job()) == Recovery::Watched);
  const auto updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].event.state == JobState::Succeeded);

  Submission known = world.job();
  known.events_read = fs::file_size(world.attempt() / "events.jsonl");
  CHECK(world.backend.recover(known) == Recovery::Vanished);
}

TEST_CASE("a withdrawn job never begins, and a begun one is not withdrawn", "[local]") {
  World world;
  const Submission job = world.job();
  CHECK(world.backend.withdraw(job));
  CHECK(newest_claim(world.attempt())->pass == 1);  // so no supervisor gets it

  const Submission begun = world.job(1);
  claim(world.attempt(1), 1, identify(::getpid()).value(), 42);
  CHECK_FALSE(world.backend.withdraw(begun));

  Submission never_handed_over = world.job(2);
  never_handed_over.attempt = 2;
  CHECK(world.backend.withdraw(never_handed_over));
  CHECK_FALSE(fs::exists(never_handed_over.job_directory / "attempt-2"));
}

namespace {

/// Returns this process as a process of `host`.
ProcessIdentity process_of(const std::string& host) {
  ProcessIdentity process = identify(::getpid()).value();
  process.host = host;
  return process;
}

}  // namespace

TEST_CASE("a job of another host is left alone until that host is declared gone", "[local]") {
  World world;
  const Submission job = world.job();
  claim(world.attempt(), 1, process_of("elsewhere"));
  CHECK_THROWS_WITH(world.backend.recover(job), Catch::StartsWith("job-0 runs on host elsewhere"));
  std::this_thread::sleep_for(20ms);  // a tick of the file system's clock
  declare_gone(world.folder.path(), "elsewhere");
  CHECK(world.backend.recover(job) == Recovery::Vanished);

  std::this_thread::sleep_for(20ms);
  const Submission later = world.job(1);  // that host is back
  claim(world.attempt(1), 1, process_of("elsewhere"));
  CHECK_THROWS_WITH(world.backend.recover(later), Catch::Contains("--gone elsewhere"));

  CHECK_THROWS_WITH(declare_gone(world.folder.path(), host_name()),
                    Catch::Contains("this machine"));
  const std::string name = GENERATE("", "..", "a/b");
  CHECK_THROWS_WITH(declare_gone(world.folder.path(), name), Catch::Contains("not the name"));
}

TEST_CASE("a host in a record cannot lead to a file elsewhere", "[local]") {
  World world;
  const Submission job = world.job();
  claim(world.attempt(), 1, process_of("../journal"));
  std::this_thread::sleep_for(20ms);  // a tick of the file system's clock
  declare_gone(world.folder.path(), "elsewhere");
  world.folder.write("journal", "");
  CHECK_THROWS_WITH(world.backend.recover(job), Catch::Contains("runs on host ../journal"));
}

TEST_CASE("a stop reaches the supervisor once it has the pass, and each stop once", "[local]") {
  World world;
  world.submit(world.job());
  Supervisor supervisor;
  world.backend.stop(0, Stop::AndSave);  // no supervisor has it yet
  world.backend.stop(7, Stop::AndSave);  // there is no such job
  claim(world.attempt(), 1, supervisor.identity(), 42);
  while (!supervisor.has_stop()) CHECK(world.wait(20ms).empty());
  CHECK(supervisor.next_stop() == 42);
  CHECK_FALSE(supervisor.has_stop());
  world.backend.stop(0, Stop::AndSave);  // asked already
  CHECK_FALSE(supervisor.has_stop());
  world.backend.stop(0, Stop::AtOnce);
  CHECK(supervisor.next_stop() == 42);
  CHECK_FALSE(supervisor.has_stop());
}

TEST_CASE("an immediate kill is two requests", "[local]") {
  World world;
  world.submit(world.job());
  Supervisor supervisor;
  claim(world.attempt(), 1, supervisor.identity(), 5);
  world.backend.stop(0, Stop::AtOnce);
  CHECK(supervisor.next_stop() == 5);
  CHECK(supervisor.next_stop() == 5);
  CHECK_FALSE(supervisor.has_stop());
}

TEST_CASE("a killed launcher is replaced for the jobs that had not begun", "[local]") {
  World world;
  const Request waiting = world.submit(world.job(0));
  world.submit(world.job(1));
  const Request ended = world.submit(world.job(2));
  world.record(JobState::Succeeded, 2);
  world.launcher.report(ended.header.token, NewsKind::Recorded);
  CHECK(world.wait().size() == 1);
  Supervisor supervisor;
  claim(world.attempt(1), 1, supervisor.identity());
  world.launcher.die();
  pollfd another{world.launcher.listener(), POLLIN, 0};
  while (::poll(&another, 1, 0) == 0) CHECK(world.wait(10ms).empty());
  world.launcher.begin();
  const Request again = world.launcher.next();
  CHECK(again.attempt == world.attempt(0));
  CHECK(again.header.token != waiting.header.token);
  CHECK_FALSE(world.launcher.has_request());  // the other one runs on

  supervisor.kill();
  const auto updates = world.wait();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].job == 1);
  CHECK(updates[0].event.state == JobState::Lost);
}

TEST_CASE("a wait ends when it is interrupted", "[local]") {
  World world;
  world.submit(world.job());
  REQUIRE(::write(world.interrupter.get(), "x", 1) == 1);
  CHECK(world.wait(10min).empty());
}

TEST_CASE("data that does not fit into the socket is sent later", "[local]") {
  World world;
  const Request first = world.submit(world.job());
  constexpr uint32_t kMany = 2000;
  for (uint32_t number = 1; number <= kMany; ++number) {
    Submission job = world.job();
    job.job = number;
    world.backend.submit(job);
  }
  std::set<uint64_t> tokens = {first.header.token};
  while (tokens.size() <= kMany) {
    CHECK(world.wait(0ms).empty());
    while (world.launcher.has_request()) tokens.insert(world.launcher.next().header.token);
  }
  CHECK(*tokens.rbegin() == kMany + 1);
}

TEST_CASE("a path too long for a packet is refused", "[local]") {
  World world;
  Submission job = world.job();
  job.job_directory = "/" + std::string(kMaxPacket, 'x');
  CHECK_THROWS_WITH(world.backend.submit(job), Catch::EndsWith("the path is too long"));
}

TEST_CASE("a launcher that was never started has not died", "[local]") {
  LauncherClient client;
  CHECK_FALSE(client.has_died());
  CHECK(client.receive().empty());
  CHECK(client.descriptor() == -1);
}
