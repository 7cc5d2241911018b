#include "engine/run/notify/notify.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse_json.h"
#include "base/secret_file.h"
#include "engine/plan/notifications.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/run/notify/channels.h"
#include "engine/run/notify/end_on_record.h"
#include "tests/support/catch.h"
#include "tests/support/chain_world.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/test_run.h"
#include "tests/support/variable.h"

using namespace dlflow;
using namespace dlflow::test;
using Event = Notifications::Event;
using Lines = std::vector<std::string>;
namespace fs = std::filesystem;

namespace {

Notifications everything() {
  return {.on = {Event::End, Event::Failure, Event::NoProgress}, .command = {"true"}};
}

/// The news of a run's end that `notify` sends, for a run in `run`.
struct Told {
  explicit Told(const Notifications& notify, const std::string& address = "",
                std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    write_notifications(run.path(), notify);
    const auto record = claim_news(run.path(), notify, {.run = "demo-1", .number = 3});
    REQUIRE(record.has_value());
    warnings = tell(*record, address, limit);
    log = read_file(run.path() / "notified/end-3.log");
  }

  TempDir run;
  Lines warnings;
  std::string log;
};

JobEvent failed(JobState state, int exit, const std::string& reason) {
  JobEvent end;
  end.job = "train";
  end.attempt = 2;
  end.state = state;
  end.exit = exit;
  end.reason = reason;
  return end;
}

}  // namespace

TEST_CASE("news is a sentence that names the run, the job and the reason", "[notify]") {
  CHECK(message({.run = "demo-1"}) == "demo-1 succeeded");
  CHECK(message({.run = "demo-1", .state = JobState::Failed, .job = "train", .reason = "exit 3"}) ==
        "demo-1 failed: train failed, exit 3");
  const auto said = [](const JobEvent& end) {
    const auto news = news_of(everything(), "demo-1", end, false);
    return news ? message(*news) : "";
  };
  CHECK(said(failed(JobState::TimedOut, 143, "walltime of 20m reached")) ==
        "demo-1: train timed-out, walltime of 20m reached");
  CHECK(said(failed(JobState::Failed, 75, "no progress since the last checkpoint")) ==
        "demo-1: train is not requeued again: no progress since the last checkpoint");
  CHECK(said(failed(JobState::Cancelled, 1, "")) == "");
  CHECK_FALSE(news_of(everything(), "demo-1", failed(JobState::Failed, 1, ""), true).has_value());
}

TEST_CASE("only requested news is sent", "[notify]") {
  Notifications notify = everything();
  const JobEvent stuck = failed(JobState::Failed, 75, "no progress");
  notify.on = {Event::Failure};
  CHECK(news_of(notify, "demo-1", stuck, false)->event == Event::Failure);
  notify.on = {Event::NoProgress};
  CHECK(news_of(notify, "demo-1", stuck, false)->event == Event::NoProgress);
  CHECK_FALSE(news_of(notify, "demo-1", failed(JobState::Failed, 1, ""), false).has_value());
  const TempDir run;
  CHECK_FALSE(claim_news(run.path(), notify, {.run = "demo-1"}).has_value());
}

TEST_CASE("only one of several processes that find the same news may send it", "[notify]") {
  const TempDir run;
  const News news{.run = "demo-1", .number = 3};
  CHECK(claim_news(run.path(), everything(), news) == run.path() / "notified/end-3.json");
  CHECK_FALSE(claim_news(run.path(), everything(), news).has_value());
  CHECK(claim_news(run.path(), everything(), {.run = "demo-1", .number = 4}).has_value());
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(run.path() / "notified")) {
    CHECK(entry.path().extension() == ".json");
    ++files;
  }
  CHECK(files == 2);
}

TEST_CASE("the address of a webhook is a program's input, and in no command line", "[notify]") {
  const Channel channel =
      webhook_at("http://host/hook", "HOOK", "/runs/demo-1/notified/end-3.json");
  CHECK(channel.input ==
        "url = \"http://host/hook\"\nheader = \"Content-Type: application/json\"\n");
  CHECK(channel.command.argv.back() == "@end-3.json");
  CHECK(channel.command.directory == "/runs/demo-1/notified");
  for (const std::string& word : channel.command.argv) CHECK(word.find("host") == word.npos);
}

TEST_CASE("a mail goes to sendmail if it exists", "[notify]") {
  const TempDir folder;
  folder.write_program("sendmail", "#!/bin/sh\n");
  const Variable path("PATH", folder.path());
  const Json news = to_json({.run = "demo-1", .number = 3});
  const Channel channel = mail_to("ann@example.org", news, "/runs/demo-1");
  CHECK(channel.name == "mail to ann@example.org");
  CHECK(channel.command.argv ==
        Lines{(folder.path() / "sendmail").string(), "-i", "ann@example.org"});
  CHECK(
      channel.input ==
      mail_text(
          "ann@example.org", "dlflow: demo-1 succeeded",
          "demo-1 succeeded\n\nThe run is in /runs/demo-1; `dlflow status demo-1` shows more.\n"));
}

TEST_CASE("claimed news is durably on disk before it is sent", "[notify]") {
  const TempDir run;
  const auto order =
      order_of_syncs([&] { claim_news(run.path(), everything(), {.run = "demo-1", .number = 3}); });
  if (!order) return skip("processes cannot be traced here");
  CHECK_THAT(*order, Catch::EndsWith("link sync"));
}

TEST_CASE("news that another process claims at the same moment belongs to that process",
          "[notify]") {
  const TempDir run;
  make_directories(run.path() / "notified");
  // The other process's record becomes visible only when this one takes its name.
  fs::create_symlink("not yet to be seen", run.path() / "notified/end-3.json");
  CHECK_FALSE(claim_news(run.path(), everything(), {.run = "demo-1", .number = 3}).has_value());
}

TEST_CASE("a program gets news by its variables and its input", "[notify]") {
  Notifications notify = everything();
  notify.command = {"sh", "-c", "cat > input; env | grep ^DLFLOW_ | sort > seen"};
  const Told told(notify);
  CHECK(told.warnings.empty());
  CHECK(told.log == "told: sh\n");
  CHECK(parse_json(read_file(told.run.path() / "input")).at("text") == "demo-1 succeeded");
  const std::string seen = read_file(told.run.path() / "seen");
  for (const std::string& line :
       {std::string("DLFLOW_EVENT=end\n"), std::string("DLFLOW_MESSAGE=demo-1 succeeded\n"),
        std::string("DLFLOW_RUN=demo-1\n"), std::string("DLFLOW_STATE=succeeded\n"),
        "DLFLOW_RUN_DIRECTORY=" + told.run.path().string() + "\n"}) {
    CHECK(seen.find(line) != std::string::npos);
  }
}

TEST_CASE("a program in a step of another run gets only news of its own run", "[notify]") {
  const Variable run("DLFLOW_RUN", "other-1");
  const Channel channel =
      own_program(everything(), to_json({.run = "demo-1", .number = 3}), "/runs/demo-1");
  Lines runs = channel.command.environment;
  std::erase_if(runs, [](const std::string& entry) { return !entry.starts_with("DLFLOW_RUN="); });
  CHECK(runs == Lines{"DLFLOW_RUN=demo-1"});
}

TEST_CASE("a failing channel causes a warning, and the others still send", "[notify]") {
  Notifications notify = everything();
  SECTION("a program that fails") {
    notify.command = {"sh", "-c", "echo no network >&2; exit 3"};
    const Told told(notify);
    CHECK(told.warnings == Lines{"warning: sh: exit 3: no network"});
    CHECK(told.log == "warning: sh: exit 3: no network\n");
  }
  SECTION("a program that hangs is killed") {
    notify.command = {"sh", "-c", "sleep 600"};
    const Told told(notify, "", std::chrono::milliseconds(1000));
    CHECK(told.warnings == Lines{"warning: sh: did not end within 1 s; it was killed"});
  }
  SECTION("a missing program beside an existing one") {
    notify.command = {"/nowhere/tell"};
    notify.webhook = "HOOK";
    const Told told(notify);
    REQUIRE(told.warnings.size() == 2);
    CHECK(told.warnings[0] ==
          "warning: webhook HOOK: the secret HOOK is not in the run's folder any more");
    CHECK(told.warnings[1].starts_with("warning: /nowhere/tell: "));
  }
  SECTION("an unreachable webhook, whose address is in no log") {
    notify.command.clear();
    notify.webhook = "HOOK";
    const Told told(notify, "http://127.0.0.1:9/secret-part");
    REQUIRE(told.warnings.size() == 1);
    CHECK(told.warnings[0].starts_with("warning: webhook HOOK: "));
    CHECK(told.log.find("secret-part") == std::string::npos);
  }
}

TEST_CASE("a log that cannot be written is a warning", "[notify]") {
  const TempDir run;
  write_notifications(run.path(), everything());
  const auto record = claim_news(run.path(), everything(), {.run = "demo-1", .number = 3});
  REQUIRE(record.has_value());
  run.write("notified/end-3.log/in the way", "");
  const Lines warnings = tell(*record, "", std::chrono::seconds(20));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::StartsWith("warning: ") && Catch::Contains("end-3.log"));
}

TEST_CASE("unreadable news causes a warning, in the log as well", "[notify]") {
  const TempDir run;
  write_notifications(run.path(), everything());
  const auto record = run.write("notified/end-3.json", "{");
  const Lines warnings = tell(record, "", std::chrono::seconds(20));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("warning: "));
  CHECK(read_file(run.path() / "notified/end-3.log") == warnings[0] + "\n");
}

TEST_CASE("the address of a webhook is in no log, whichever program prints it", "[notify]") {
  Notifications notify = everything();
  notify.command = {"sh", "-c", "echo cannot reach http://host/secret-part >&2; exit 3"};
  notify.webhook = "HOOK";
  const Told told(notify, "http://host/secret-part", std::chrono::seconds(5));
  REQUIRE(told.warnings.size() == 2);
  CHECK(told.warnings[0] == "warning: sh: exit 3: cannot reach ***");
  CHECK(told.log.find("secret-part") == std::string::npos);
}

TEST_CASE("the address of a webhook is the run's secret, as long as it exists", "[notify]") {
  const TempDir run;
  Notifications notify = everything();
  write_secrets(secrets_file(run.path()), {{"HOOK", "http://host/hook"}, {"OTHER", "others"}});
  CHECK(webhook_address(run.path(), notify) == "");
  notify.webhook = "HOOK";
  CHECK(webhook_address(run.path(), notify) == "http://host/hook");
  remove_secrets(run.path());
  CHECK(webhook_address(run.path(), notify) == "");
}

TEST_CASE("the secret of a webhook is kept until the end of the run is sent", "[notify]") {
  const TempDir run;
  CHECK_FALSE(waits_to_be_told(run.path()));  // no news is requested
  Notifications notify = everything();
  write_notifications(run.path(), notify);
  CHECK_FALSE(waits_to_be_told(run.path()));  // no address is needed
  notify.webhook = "HOOK";
  write_notifications(run.path(), notify);
  CHECK(waits_to_be_told(run.path()));
  run.write("notified/end-3.json", "{}");
  run.write("notified/failure-1.log", "told: webhook HOOK\n");
  CHECK(waits_to_be_told(run.path()));
  run.write("notified/end-3.log", "told: webhook HOOK\n");
  CHECK_FALSE(waits_to_be_told(run.path()));
  run.write("notified/end-3.log", "");
  notify.on = {Event::Failure};
  write_notifications(run.path(), notify);
  CHECK_FALSE(waits_to_be_told(run.path()));
}

TEST_CASE("the run's own program sends in the background, and gets the address of the webhook",
          "[notify]") {
  const TempDir run;
  Notifications notify = everything();
  const fs::path program = frozen_program(run.path());
  run.write_program(
      fs::relative(program, run.path()).string(),
      "#!/bin/sh\ncd \"${0%/*}\"\necho \"$@\" \"${DLFLOW_NOTIFY_ADDRESS-none}\" > said.new\n"
      "mv said.new said\n");
  const auto said = [&](const News& news) {
    tell_aside(run.path(), news);
    const fs::path file = program.parent_path() / "said";
    while (!fs::exists(file)) ::usleep(1000);
    const std::string text = read_file(file);
    fs::remove(file);
    return text;
  };
  const std::string records = "notify-exec " + (run.path() / "notified").string();
  write_notifications(run.path(), notify);
  CHECK(said({.run = "demo-1", .number = 1}) == records + "/end-1.json none\n");
  notify.webhook = "HOOK";
  write_notifications(run.path(), notify);
  write_secrets(secrets_file(run.path()), {{"HOOK", "http://host/hook"}});
  CHECK(said({.run = "demo-1", .number = 2}) == records + "/end-2.json http://host/hook\n");
}

TEST_CASE("notify-exec uses the address in its environment, and erases it there", "[notify]") {
  const TempDir run;
  Notifications notify = everything();
  notify.command = {"sh", "-c", "echo ${DLFLOW_NOTIFY_ADDRESS-none} > seen"};
  notify.webhook = "HOOK";
  write_notifications(run.path(), notify);
  const auto record = claim_news(run.path(), notify, {.run = "demo-1", .number = 3});
  REQUIRE(record.has_value());
  ::setenv("DLFLOW_NOTIFY_ADDRESS", "http://127.0.0.1:9/hook", 1);
  CHECK(notify_exec(*record) == 0);
  CHECK(::getenv("DLFLOW_NOTIFY_ADDRESS") == nullptr);
  CHECK(read_file(run.path() / "seen") == "none\n");
  const std::string log = read_file(run.path() / "notified/end-3.log");
  CHECK_THAT(log, Catch::StartsWith("told: sh\nwarning: webhook HOOK: exit "));
}

TEST_CASE("the end of a run names the decisive failure, not an allowed one", "[notify]") {
  TestRun run(R"(
  a: {run: ./a, allow_failure: true}
  b: {run: ./b, needs: [a]}
notify: {command: ["true"], on: [end, failure]}
)");
  const auto told = [&](const std::string& name) {
    const fs::path file = run.directory / "notified" / (name + ".json");
    return fs::exists(file) ? parse_json(read_file(file)) : Json::object();
  };
  run.backend.fail("a");
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(told("end-2").at("text") == run_name(run.directory) + " succeeded");
  CHECK(told("failure-1").empty());

  run.rewrite(R"(
  a: {run: ./a.of.now, allow_failure: true}
  b: {run: ./b.of.now, needs: [a]}
notify: {command: ["true"], on: [end, failure]}
)");
  run.backend.fail("a");
  run.backend.fail("b");
  CHECK(run.start().state == RunState::Failed);
  CHECK(told("end-2").at("state") == "failed");
  CHECK(told("end-2").at("job") == "b");
  CHECK(told("failure-1").at("job") == "b");
}

TEST_CASE("a cancelled job blocks its dependents, and the failure beside it is reported",
          "[notify]") {
  TestRun run(R"(
  a: {run: ./a}
  b: {run: ./b}
  c: {run: ./c, needs: [a]}
notify: {command: ["true"], on: [end]}
)");
  run.backend.ends["a"] = {JobState::Cancelled};  // by itself, without a stop of the run
  run.backend.fail("b");
  CHECK(run.start({.keep_going = true}).state == RunState::Failed);
  CHECK(run.states().at("c") == JobState::Blocked);
  CHECK(parse_json(read_file(run.directory / "notified/end-2.json")).at("job") == "b");
}

TEST_CASE("the end of a stopped run is reported by the command that goes on with it", "[notify]") {
  TestRun run("  a: {run: ./a}\nnotify: {command: [\"true\"], on: [end]}\n");
  run.backend.stubborn = {"a"};  // it ends well within its grace time
  run.backend.on_submit = [](const std::string&) { ::kill(::getpid(), SIGINT); };
  CHECK(run.start().state == RunState::Succeeded);
  const fs::path news = run.directory / "notified/end-1.json";
  CHECK_FALSE(fs::exists(news));
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(fs::exists(news));
}

TEST_CASE(
    "the end of a run with its last job is recognised from the run's folder, without an engine",
    "[notify]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n  c: {run: ./c, needs: [b]}\n");
  const auto end = [&run] { return end_on_record(load_run(run.directory)); };
  SECTION("well") {
    CHECK(run.start().state == RunState::Succeeded);
    REQUIRE(end().has_value());
    CHECK(end()->state == JobState::Succeeded);
    CHECK(end()->number == 3);
  }
  SECTION("not while a job is left") {
    run.backend.held = {"b"};
    run.start_and_kill(6);
    CHECK_FALSE(end().has_value());
  }
  SECTION("a failure ends its dependents, and a failed new try is a new end") {
    run.backend.fail("b");
    CHECK(run.start().state == RunState::Failed);
    fs::remove(engine_events_file(run.directory));  // as on a node, without an engine's record
    REQUIRE(end().has_value());
    CHECK(message(*end()).starts_with(run_name(run.directory) + " failed: b failed"));
    CHECK(end()->number == 2);
  }
  SECTION("a failure ends distant descendants, and the first of several failures is named") {
    run.rewrite(
        "  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n  c: {run: ./c, needs: [b]}\n"
        "  d: {run: ./d}\n");
    run.backend.fail("a");
    run.backend.fail("d");
    CHECK(run.start({.keep_going = true}).state == RunState::Failed);
    fs::remove(engine_events_file(run.directory));
    REQUIRE(end().has_value());
    CHECK(end()->job == "a");
  }
  SECTION("not while another try is about to begin") {
    run.backend.fail("a");
    CHECK(run.start().state == RunState::Failed);
    REQUIRE(end().has_value());
    CHECK(killed_at("intent", 1, [&] { run.resubmit(); }));
    CHECK_FALSE(end().has_value());
  }
  SECTION("it is another end after another try") {
    run.backend.fail("b");
    CHECK(run.start().state == RunState::Failed);
    run.resubmit();
    REQUIRE(end().has_value());
    CHECK(end()->state == JobState::Succeeded);
    CHECK(end()->number == 4);
  }
}

TEST_CASE("the run's folder shows that an allowed failure ends neither the run nor its dependents",
          "[notify]") {
  TestRun run("  a: {run: ./a, allow_failure: true}\n  b: {run: ./b, needs: [a]}\n");
  run.backend.fail("a");
  const auto end = [&run] {
    fs::remove(engine_events_file(run.directory));  // as on a node, without an engine's record
    return end_on_record(load_run(run.directory));
  };
  SECTION("not while a dependent is left") {
    run.backend.held = {"b"};
    run.start_and_kill(6);
    CHECK_FALSE(end().has_value());
  }
  SECTION("not before a dependent has begun") {
    run.observer.on_event = [](const JobEvent& event) {
      if (event.state == JobState::Failed) throw Killed();
    };
    CHECK_THROWS_AS(run.start(), Killed);
    CHECK_FALSE(end().has_value());
  }
  SECTION("well") {
    CHECK(run.start().state == RunState::Succeeded);
    REQUIRE(end().has_value());
    CHECK(end()->state == JobState::Succeeded);
    CHECK(end()->job.empty());
  }
}

TEST_CASE("a program gets the state of the failed job, and at the end that of the run",
          "[notify]") {
  News news{.event = Event::Failure, .run = "demo-1", .state = JobState::TimedOut, .job = "train"};
  CHECK(to_json(news).at("state") == "timed-out");
  news.event = Event::End;
  CHECK(to_json(news).at("state") == "failed");
  news.state = JobState::Succeeded;
  CHECK(to_json(news).at("state") == "succeeded");
}

TEST_CASE("a decision that only the engine recorded is an end, too", "[notify]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b, needs: [a], if: \"${{ 1 > 2 }}\"}\n");
  CHECK(run.start().state == RunState::Succeeded);
  const auto end = end_on_record(load_run(run.directory));
  REQUIRE(end.has_value());
  CHECK(end->state == JobState::Succeeded);
}

TEST_CASE("a wide step with a dependent has ended when all of its elements have", "[notify]") {
  TestRun run(
      "  sweep: {run: ./sweep, matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}\n"
      "  best: {run: ./best, needs: [sweep]}\n");
  const auto end = [&run] { return end_on_record(load_run(run.directory)); };
  run.backend.fail("sweep[n=4]");
  run.backend.held = {"sweep[n=7]"};
  run.start_and_kill(30);
  CHECK_FALSE(end().has_value());
  run.backend.held.clear();
  CHECK(run.resume().state == RunState::Failed);
  REQUIRE(end().has_value());
  CHECK(end()->job == "sweep[n=4]");
  CHECK(end()->number == 10);
  run.resubmit();
  REQUIRE(end().has_value());
  CHECK(end()->state == JobState::Succeeded);
  CHECK(end()->number == 12);
}

TEST_CASE("a job is at work from its beginning to its end", "[notify]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n  c: {run: ./c, needs: [b]}\n");
  run.backend.held = {"b"};
  run.start_and_kill(6);
  const auto at_work = [&run](const JobName& job) { return is_at_work(run.directory, job); };
  CHECK_FALSE(at_work("a"));  // it has ended
  CHECK(at_work("b"));
  CHECK_FALSE(at_work("c"));  // it has not begun
  CHECK_FALSE(at_work("d"));
  const auto recorded = [&](JobState state, int attempt) {
    JobEvent event;
    event.job = "b";
    event.attempt = attempt;
    event.state = state;
    AppendFile(engine_events_file(run.directory)).append(to_line(event));
    return at_work("b");
  };
  CHECK(recorded(JobState::Running, 1));
  CHECK(recorded(JobState::Lost, 0));  // belongs to an earlier attempt
  CHECK_FALSE(recorded(JobState::Lost, 1));
  CHECK_FALSE(recorded(JobState::Planned, 1));
}
