#include <sys/syscall.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "base/file_identity.h"
#include "base/sha256.h"
#include "engine/plan/job.h"
#include "engine/store/store.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/unit/engine/store/store_fixture.h"

using namespace dlflow;
using namespace dlflow::test;

namespace fs = std::filesystem;

TEST_CASE("a result is found by its fingerprint while its outputs are on disk", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  const fs::path output = job_directory(plan, 0) / "outputs/model.bin";
  const std::vector<JobEvent> events = {event("data", 1, Submitting), event("data", 1, Running),
                                        succeeded("data", "f1", output.string())};
  fixture.store.record(plan.run, events);
  CHECK_FALSE(
      fixture.store.find(fingerprint_named("f1"), {}).has_value());  // no output is published

  finish_on_disk(plan, 0, events);
  write_file_atomic(output, "x");
  CHECK_FALSE(fixture.store.find(fingerprint_named("f1"), {})
                  .has_value());  // changed since its publication
  record_publication(job_directory(plan, 0));
  const auto result = fixture.store.find(fingerprint_named("f1"), {});
  REQUIRE(result.has_value());
  CHECK(result->run == plan.run);
  CHECK(result->job == "data");
  CHECK(result->directory == job_directory(plan, 0));
  CHECK(result->outputs == events[2].outputs);
  CHECK(result->metrics == events[2].metrics);
  CHECK_FALSE(fixture.store.find(fingerprint_named("f2"), {}).has_value());

  fs::remove(output);
  CHECK_FALSE(fixture.store.find(fingerprint_named("f1"), {}).has_value());
}

TEST_CASE("the newest of several results with one fingerprint is reused", "[store]") {
  StoreFixture fixture;
  // The newest is neither the first nor the last in the order of the table.
  for (const int ended : {20, 30, 10}) {
    const Plan plan = fixture.stored_run(kMnist, at(100 - ended));
    const auto output = fixture.folder.write("made/" + std::to_string(ended), "x");
    const std::vector<JobEvent> events = {event("data", 1, Submitting), event("data", 1, Running),
                                          succeeded("data", "f1", output.string(), ended)};
    fixture.store.record(plan.run, events);
    finish_on_disk(plan, 0, events);
  }
  const auto result = fixture.store.find(fingerprint_named("f1"), {});
  REQUIRE(result.has_value());
  CHECK(result->outputs["path"]["value"].get<std::string>().ends_with("made/30"));
}

TEST_CASE("a result that an earlier version took from a bundle is not reused", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  const auto output = fixture.folder.write("made/data", "x");
  std::vector<JobEvent> events = {event("data", 1, Submitting), event("data", 1, Running),
                                  succeeded("data", "f1", output.string())};
  events.back().reason = "taken from bundle b.dlflow";
  fixture.store.record(plan.run, events);
  finish_on_disk(plan, 0, events);
  CHECK_FALSE(fixture.store.find(fingerprint_named("f1"), {}).has_value());
}

namespace {

/// Runs of a command with external effects, one after the other.
struct ActsElsewhere {
  /// \param seconds  the time by the clock
  /// \param left     its outputs
  std::string run(const std::string& fingerprint, int seconds, const Json& left = Json::object()) {
    const Plan plan = begin(seconds);
    end(plan, fingerprint, seconds + 2, left);
    return plan.run;
  }
  Plan begin(int seconds) {
    Plan plan = fixture.stored_run("name: w\nsteps:\n  a: {run: ./a}\n", at(seconds));
    fixture.store.record(plan.run, std::vector{event("a", 1, Submitting, seconds),
                                               event("a", 1, Running, seconds + 1)});
    return plan;
  }
  void end(const Plan& plan, const std::string& fingerprint, int seconds,
           const Json& left = Json::object()) {
    JobEvent end = event("a", 1, Succeeded, seconds);
    end.fingerprint = fingerprint_named(fingerprint);
    end.outputs = left;
    const std::vector<JobEvent> events = {end};
    fixture.store.record(plan.run, events);
    finish_on_disk(plan, 0, events);
  }
  bool knows(const std::string& fingerprint) {
    return fixture.store.find(fingerprint_named(fingerprint), {}).has_value();
  }

  StoreFixture fixture;
};

}  // namespace

TEST_CASE("the effects of a command without outputs hold until its step has other effects",
          "[store]") {
  ActsElsewhere command;
  command.run("one", 0);
  REQUIRE(command.knows("one"));
  CHECK(command.fixture.store.find(fingerprint_named("one"), {})->outputs == Json::object());
  CHECK(command.fixture.store.find(fingerprint_named("one"), {})->metrics == Json::object());
  command.run("one", 100);
  CHECK(command.knows("one"));
  const std::string two = command.run("two", 200);
  CHECK_FALSE(command.knows("one"));
  CHECK(command.knows("two"));
  CHECK(command.fixture.store.refusal(fingerprint_named("one"), "", "a")
            .starts_with(two + " has run another version of it"));
  const std::string third = command.run("one", 300);
  CHECK(command.fixture.store.refusal({}, third, "a")
            .starts_with(two + " has run another version of it"));
}

TEST_CASE("the external effects of a command count even after its run is removed", "[store]") {
  ActsElsewhere command;
  command.run("one", 0);
  const std::string two = command.run("two", 100);
  command.fixture.store.forget(two);
  CHECK_FALSE(command.knows("one"));
  command.run("one", 200);
  CHECK(command.knows("one"));
}

TEST_CASE("later external effects of a command are noticed although the clock was set back",
          "[store]") {
  ActsElsewhere command;
  command.run("one", 1000);
  const std::string two = command.run("two", 0);
  CHECK_FALSE(command.knows("one"));
  CHECK_FALSE(command.knows("two"));  // earlier by the clock, so the order is unknown
  SECTION("after its run is removed") {
    command.fixture.store.forget(two);
    CHECK_FALSE(command.knows("one"));
  }
  SECTION("until the clock is right again") {
    command.run("two", 2000);
    CHECK(command.knows("two"));
  }
}

TEST_CASE("simultaneous external effects of a command count as possibly later", "[store]") {
  ActsElsewhere command;
  const Plan two = command.begin(0);
  command.run("one", 100);
  CHECK_FALSE(command.knows("one"));  // the other is at work
  command.end(two, "two", 200);
  CHECK_FALSE(command.knows("one"));
  SECTION("after its run is removed") {
    command.fixture.store.forget(two.run);
    CHECK_FALSE(command.knows("one"));
  }
  command.run("one", 300);
  CHECK(command.knows("one"));
}

TEST_CASE("external effects of a failed command count, even if its retry failed as well",
          "[store]") {
  ActsElsewhere command;
  command.run("one", 0);
  const Plan two = command.begin(100);
  command.fixture.store.record(
      two.run, std::vector{event("a", 1, Failed, 110), event("a", 2, Submitting, 120),
                           event("a", 2, Cancelled, 121)});
  CHECK_FALSE(command.knows("one"));
  SECTION("after its run is removed") {
    command.fixture.store.forget(two.run);
    CHECK_FALSE(command.knows("one"));
  }
}

TEST_CASE("an unverifiable place of a command may have been overwritten since", "[store]") {
  const auto named = [](const std::string& place) {
    return Json{{"data", {{"value", place}, {"sha256", sha256_hex(Json(place).dump())}}}};
  };
  ActsElsewhere command;
  const std::string place = GENERATE("s3://bucket/data", "host:data", "model:latest", "~/data",
                                     "$SCRATCH/data", "s3://bucket/my data");
  command.run("one", 0, named(place));
  REQUIRE(command.knows("one"));
  const std::string two = command.run("two", 100, named(place));
  CHECK_FALSE(command.knows("one"));
  SECTION("after its run is removed") {
    command.fixture.store.forget(two);
    CHECK_FALSE(command.knows("one"));
  }
}

TEST_CASE("an output that is text and not a place is reused, whatever the command did since",
          "[store]") {
  ActsElsewhere command;
  const std::string text = GENERATE("0.9", "adam", "one: two", ":", "a:");
  const Json left = {{"word", {{"value", text}, {"sha256", sha256_hex(Json(text).dump())}}}};
  command.run("one", 0, left);
  command.run("two", 100, left);
  CHECK(command.knows("one"));
}

TEST_CASE("possible external effects of a queued job count before its state is read again",
          "[store]") {
  ActsElsewhere command;
  command.run("one", 0);
  const Plan two = command.fixture.stored_run("name: w\nsteps:\n  a: {run: ./a}\n", at(100));
  REQUIRE(command.knows("one"));
  const JobState state = GENERATE(Submitting, Queued, Lost);
  std::vector<JobEvent> events = {event("a", 1, Submitting, 101)};
  if (state != Submitting) events.push_back(event("a", 1, state, 102));
  command.fixture.store.record(two.run, events);
  CHECK_FALSE(command.knows("one"));
  if (state != Lost) {  // it did not begin
    command.fixture.store.record(two.run, std::vector{event("a", 1, Cancelled, 103)});
    CHECK(command.knows("one"));
  }
}

namespace {

/// Runs of two steps, the second of which reads external effects of the first.
struct ReadsElsewhere {
  static constexpr const char* kText =
      "name: w\nsteps:\n  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n";

  Plan run(int seconds) { return fixture.stored_run(kText, at(seconds)); }
  void work(const Plan& plan, const JobName& job, const std::string& fingerprint, int begin,
            int end) {
    std::vector<JobEvent> events = {event(job, 1, Submitting, begin), event(job, 1, Running, begin),
                                    event(job, 1, Succeeded, end)};
    events.back().fingerprint = fingerprint_named(fingerprint);
    fixture.store.record(plan.run, events);
    finish_on_disk(plan, *find_job(plan, job), events);
  }
  void reuse(const Plan& plan, const JobName& job, const std::string& fingerprint, int seconds) {
    JobEvent cached = event(job, 0, Cached, seconds);
    cached.fingerprint = fingerprint_named(fingerprint);
    fixture.store.record(plan.run, std::vector{cached});
  }
  /// Returns the run whose result of b counts, or "".
  std::string found(const std::string& fingerprint) {
    const std::vector<std::string> acting = {"a"};
    const auto result = fixture.store.find(fingerprint_named(fingerprint), acting);
    return result ? result->run : "";
  }

  StoreFixture fixture;
};

}  // namespace

TEST_CASE(
    "a job that read an external place has no reusable result if another run wrote there meanwhile",
    "[store]") {
  ReadsElsewhere jobs;
  const Plan one = jobs.run(0);
  const bool was_reused = GENERATE(false, true);
  was_reused ? jobs.reuse(one, "a", "one", 10) : jobs.work(one, "a", "one", 10, 20);
  jobs.work(one, "b", "b of one", 20, 30);
  CHECK(jobs.found("b of one") == one.run);
  const Plan other = jobs.run(0);
  SECTION("the other run wrote before") {
    jobs.work(other, "a", "two", 1, 9);
    CHECK(jobs.found("b of one") == one.run);
  }
  SECTION("the other run wrote after") {
    jobs.work(other, "a", "two", 31, 40);
    CHECK(jobs.found("b of one") == one.run);
    jobs.fixture.store.forget(other.run);
    CHECK(jobs.found("b of one") == one.run);
  }
  SECTION("the other run did the same") {
    jobs.work(other, "a", "one", 15, 25);
    CHECK(jobs.found("b of one") == one.run);
  }
  SECTION("the other run wrote meanwhile") {
    const auto [begin, end] = GENERATE(std::pair(5, 15), std::pair(25, 28), std::pair(29, 50));
    jobs.work(other, "a", "two", begin, end);
    CHECK(jobs.found("b of one").empty());
    jobs.fixture.store.forget(other.run);
    CHECK(jobs.found("b of one").empty());
  }
  SECTION("the other run is still at work") {
    jobs.fixture.store.record(other.run,
                              std::vector{event("a", 1, Submitting, 5), event("a", 1, Running, 6)});
    CHECK(jobs.found("b of one").empty());
  }
  SECTION("the time is unknown because of a retry") {
    jobs.fixture.store.record(
        other.run, std::vector{event("a", 1, Submitting, 5), event("a", 2, Submitting, 40),
                               event("a", 2, Running, 41), event("a", 2, Failed, 42)});
    CHECK(jobs.found("b of one").empty());
  }
}

TEST_CASE("an older result is used if other runs disturbed the newer one", "[store]") {
  ReadsElsewhere jobs;
  const Plan one = jobs.run(0);
  jobs.work(one, "a", "one", 10, 20);
  jobs.work(one, "b", "b of one", 20, 30);
  const Plan other = jobs.run(100);
  jobs.work(other, "a", "two", 105, 115);
  const Plan again = jobs.run(100);
  jobs.work(again, "a", "one", 110, 120);
  jobs.work(again, "b", "b of one", 120, 130);
  CHECK(jobs.found("b of one") == one.run);
}

TEST_CASE("a cached job is not a new result, and shows the place of its outputs", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  JobEvent cached = succeeded("data", "f1", "/d");
  cached.state = Cached;
  cached.attempt = 0;
  cached.reused_from = "/runs/earlier/steps/data";
  fixture.store.record(plan.run, std::vector{cached});
  CHECK_FALSE(fixture.store.find(fingerprint_named("f1"), {}).has_value());
  const JobRow row = fixture.store.status(plan.run).jobs[0];
  CHECK(row.state == Cached);
  CHECK(row.directory == "/runs/earlier/steps/data");
}

TEST_CASE("earlier runs are compared job by job, the newest first", "[store]") {
  StoreFixture fixture;
  const Plan first = fixture.stored_run(kMnist, at(0));
  const Plan second = fixture.stored_run(kMnist, at(100));
  const Plan third = fixture.stored_run(kMnist, at(200));
  const auto earlier = [&](const JobName& job, const std::string& run) {
    std::vector<std::string> runs;
    for (const EarlierBase& base : fixture.store.earlier("mnist", "train", job, run)) {
      runs.push_back(base.run);
    }
    return runs;
  };
  CHECK(earlier("train[lr=0.1]", "").empty());  // no run has succeeded yet
  run_to_success(fixture.store, first, "train[lr=0.1]");
  run_to_success(fixture.store, second, "train[lr=0.5]");
  using Runs = std::vector<std::string>;
  CHECK(earlier("train[lr=0.1]", third.run) == Runs{first.run, second.run});
  CHECK(earlier("train[lr=0.5]", third.run) == Runs{second.run, first.run});
  CHECK(earlier("train[lr=0.9]", "") == Runs{second.run, first.run});
  CHECK(earlier("train[lr=0.1]", second.run) == Runs{first.run});
  CHECK(fixture.store.earlier("mnist", "train", "train[lr=0.1]", third.run)[0].text ==
        fingerprint_base(first, 1));
  CHECK(fixture.store.earlier("other", "train", "train", "").empty());
}

TEST_CASE("a result belongs to the run that computed it, whichever run reused it since",
          "[store]") {
  StoreFixture fixture;
  const Plan maker = fixture.stored_run(kMnist, at(0));
  const Plan taker = fixture.stored_run(kMnist, at(100));
  const Plan shared = fixture.stored_run(kMnist, at(200));
  const Plan last = fixture.stored_run(kMnist, at(300));
  const auto compute = [&](const Plan& plan, const std::string& reason) {
    JobEvent end = succeeded("data", "f1", "/d");
    end.reason = reason;
    fixture.store.record(plan.run,
                         std::vector{event("data", 1, Submitting), event("data", 1, Running), end});
  };
  compute(maker, "");
  const auto take = [&](const Plan& plan, const Plan& from) {
    JobEvent cached = succeeded("data", "f1", "/d");
    cached.state = Cached;
    cached.attempt = 0;
    cached.reused_from = job_directory(from.directory, "data");
    fixture.store.record(plan.run, std::vector{cached});
  };
  take(taker, maker);
  CHECK(fixture.store.maker(maker.run, "data") == maker.run);
  CHECK(fixture.store.maker(taker.run, "data") == maker.run);
  CHECK(fixture.store.earlier("mnist", "data", "data", shared.run)[0].run == maker.run);

  compute(shared, shared_reason("colleagues-7f3a91c0"));
  take(last, shared);
  CHECK(fixture.store.maker(shared.run, "data") == "colleagues-7f3a91c0");
  CHECK(fixture.store.maker(last.run, "data") == "colleagues-7f3a91c0");
  const auto earlier = fixture.store.earlier("mnist", "data", "data", last.run);
  REQUIRE(earlier.size() == 3);
  CHECK(earlier[0].run == "colleagues-7f3a91c0");
  CHECK(earlier[1].run == maker.run);

  fixture.store.forget(maker.run);
  CHECK(fixture.store.maker(taker.run, "data") == taker.run);
  CHECK(fixture.store.maker("unknown", "data") == "unknown");
}

namespace {

/// Changes the remembered hash of `file`, so that it differs from a fresh one.
void mark_remembered(StoreFixture& fixture, const fs::path& file) {
  while (!is_settled(identity_of(file))) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fixture.store.sha256(file);
  Database database(fixture.home / "dlflow.db");
  database.script("UPDATE files SET sha256 = 'remembered'");
}

TEST_CASE_METHOD(StoreFixture, "jobs that another open run will make are shared with it",
                 "[store]") {
  const Plan first = stored_run(kMnist);
  const RunLock at_work(first.directory);  // its dlflow at work
  const Plan second = stored_run(kMnist);
  const std::string other = first.run;
  const auto shared = [&] { return store.shared_with_open_runs(second.directory.string()); };
  const std::map<std::string, std::set<uint32_t>> all = {{other, {0, 1, 2}}};
  CHECK(shared() == all);
  store.record(first.directory.string(), std::vector{event("data", 1, JobState::Submitting, 1)});
  CHECK(shared() == all);
  run_to_success(store, first, "data");
  CHECK(shared() == std::map<std::string, std::set<uint32_t>>{{other, {1, 2}}});
  store.set_run_state(other, RunState::Interrupted, at(9));
  CHECK(shared().empty());
}

}  // namespace

TEST_CASE("the hash of a file is remembered until the file changes", "[store]") {
  StoreFixture fixture;
  const auto file = fixture.folder.write("x", "one");
  mark_remembered(fixture, file);
  CHECK(fixture.store.sha256(file) == "remembered");
  fixture.folder.write("x", "two");  // a new inode
  CHECK(fixture.store.sha256(file) == sha256_hex("two"));
  CHECK_THROWS_WITH(fixture.store.sha256(fixture.folder.path() / "none"),
                    Catch::Contains("No such file"));
}

TEST_CASE("a file of the same size whose old time was restored is hashed again", "[store]") {
  StoreFixture fixture;
  const auto file = fixture.folder.write("x", "one");
  const auto time = fs::last_write_time(file);
  mark_remembered(fixture, file);
  std::ofstream(file) << "two";  // the same inode
  fs::last_write_time(file, time);
  CHECK(fixture.store.sha256(file) == sha256_hex("two"));
}

TEST_CASE("a file with the same numbers and times on another device is hashed again", "[store]") {
  StoreFixture fixture;
  const auto file = fixture.folder.write("x", "one");
  mark_remembered(fixture, file);
  Database(fixture.home / "dlflow.db").script("UPDATE files SET device = device + 1");
  CHECK(fixture.store.sha256(file) == sha256_hex("one"));
  CHECK(fixture.store.sha256(file) == sha256_hex("one"));
  Database database(fixture.home / "dlflow.db");
  const Rows rows = database.query("SELECT count(*) FROM files");
  REQUIRE(rows->next());
  CHECK(rows->integer(0) == 2);  // two hosts that share a home number one device differently
}

TEST_CASE("times in an image come from its maker, so no hash is remembered by them", "[store]") {
  const uint64_t squashfs = 0x73717368;
  const uint64_t fuse = 0x65735546;
  const uint64_t ext4 = 0xEF53;
  CHECK_FALSE(keeps_times(squashfs, true));
  CHECK_FALSE(keeps_times(fuse, true));  // squashfuse
  CHECK(keeps_times(fuse, false));       // sshfs and the like
  CHECK(keeps_times(ext4, true));
  CHECK(keeps_times(ext4, false));
  const test::TempDir folder;
  CHECK(has_times_of_kernel(folder.write("x", "one")));
  CHECK_FALSE(has_times_of_kernel(folder.path() / "none"));
}

TEST_CASE("the hash of a file that changes while it is read is not remembered", "[store]") {
  StoreFixture fixture;
  const auto file = fixture.folder.write("x", std::string(size_t{1} << 20, 'x'));
  while (!is_settled(identity_of(file))) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  bool was_read = false;
  const auto append_when_read = [&](uint64_t call) {
    if (call == SYS_read && !std::exchange(was_read, true)) {
      std::ofstream(file, std::ios::app) << "more";
    }
    return test::Fate::made();
  };
  const auto ended = test::run_watched(append_when_read, [&] { Store(fixture.home).sha256(file); });
  if (!ended) return test::skip("processes cannot be traced");
  REQUIRE(*ended == 0);
  Database database(fixture.home / "dlflow.db");
  CHECK_FALSE(database.query("SELECT 1 FROM files")->next());
}

TEST_CASE("a file that changed a moment ago is hashed again", "[store]") {
  StoreFixture fixture;
  fixture.store.sha256(fixture.folder.write("x", "one"));
  Database database(fixture.home / "dlflow.db");
  CHECK_FALSE(database.query("SELECT 1 FROM files")->next());
}
