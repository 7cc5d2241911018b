#include "engine/supervisor/supervisor.h"

#include <signal.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/plan/inherited.h"
#include "engine/plan/job.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/parents.h"
#include "engine/supervisor/results.h"
#include "engine/supervisor/shared_results.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/unit/engine/supervisor/job.h"

using namespace dlflow;
using test::Job;
namespace fs = std::filesystem;

TEST_CASE("a long text among the outputs is not a file", "[supervisor]") {
  const Job job("printf '{\"text\": \"%0300d\"}' 1 > $DLFLOW_OUTPUTS/outputs.json");
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.outputs.at("text").at("value").get<std::string>().size() == 300);
}

TEST_CASE("a reason is plain text for a terminal", "[supervisor]") {
  const Job job(
      "printf 'epoch 1:  50%%\\repoch 2\\r\\033[31merror: lost\\033[0m it\\n' >&2; exit 3");
  CHECK_THAT(job.execute().reason, Catch::EndsWith("error: lost it"));
}

TEST_CASE("a job that succeeds publishes its outputs and records their hashes", "[supervisor]") {
  Job job(
      "echo 42 > $DLFLOW_OUTPUTS/answer; echo '{\"accuracy\": 0.9, \"note\": \"x\"}' > "
      "$DLFLOW_SUMMARY");
  job.spec.outputs = {{"answer", "answer"}};
  job.spec.require = {{"accuracy", ">=", 0.88}};
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.exit == 0);
  CHECK(end.metrics == Json{{"accuracy", 0.9}});
  const fs::path published = job.spec.job_directory / "outputs" / "answer";
  CHECK(end.outputs["answer"]["value"] == published.string());
  CHECK(end.outputs["answer"]["sha256"] ==
        "084c799cd551dd1d8d5c5f9a5d593b2e931f5e36122ee5c793c1d08a19839cc0");
  CHECK(read_file(published) == "42\n");
  CHECK(published_result(job.spec.job_directory).has_value());
}

TEST_CASE("results of a successful job are shared with other runs, those of a failed one are not",
          "[supervisor]") {
  const bool succeeds = GENERATE(true, false);
  Job job(std::string("echo 42 > $DLFLOW_OUTPUTS/answer; ") + (succeeds ? "true" : "false"));
  job.spec.sees_run = false;
  job.spec.outputs = {{"answer", "answer"}};
  make_directories(job.spec.cache);
  fs::permissions(job.spec.cache, fs::perms(02770));
  const JobEvent end = job.execute();
  REQUIRE(end.fingerprint.empty() != succeeds);
  CHECK(fs::exists(job.spec.cache / "results") == succeeds);
  if (!succeeds) return;
  Job again("true");
  again.spec.cache = job.spec.cache;
  CHECK(take_shared_result(again.spec, AttemptFiles{again.attempt(), 1, 1}, end.fingerprint)
            .result.has_value());
}

TEST_CASE("a result that depends on external effects of a parent is not shared", "[supervisor]") {
  const bool elsewhere = GENERATE(true, false);
  Job parent(elsewhere ? "true" : "echo x > $DLFLOW_OUTPUTS/f");
  parent.spec.sees_run = false;
  if (!elsewhere) parent.spec.outputs = {{"f", "f"}};
  REQUIRE_FALSE(parent.execute().fingerprint.empty());
  Job job("echo 42 > $DLFLOW_OUTPUTS/answer");
  job.spec.sees_run = false;
  job.spec.outputs = {{"answer", "answer"}};
  job.spec.parents = {{"make", Json::object(), parent.spec.job_directory}};
  make_directories(job.spec.cache);
  fs::permissions(job.spec.cache, fs::perms(02770));
  REQUIRE_FALSE(job.execute().fingerprint.empty());
  CHECK(fs::exists(job.spec.cache / "results") != elsewhere);
}

TEST_CASE("a failure is reported with its exit status and the line that explains it",
          "[supervisor]") {
  const JobEvent end =
      Job("echo 'error: loss is NaN at step 412' >&2; echo bye >&2; exit 3").execute();
  CHECK(end.state == JobState::Failed);
  CHECK(end.exit == 3);
  CHECK(end.reason == "exit 3: error: loss is NaN at step 412");
}

TEST_CASE("a script that may not write to its read-only copy gets advice on copying it",
          "[supervisor]") {
  const std::string advice =
      "; published outputs are read-only, and so are copies: `cp -r --no-preserve=mode`";
  const std::string denied = "echo 'sh: cannot create mine/a: Permission denied' >&2; exit 2";
  CHECK(Job("mkdir mine; touch mine/a; chmod a-w mine/a; " + denied).execute().reason ==
        "exit 2: sh: cannot create mine/a: Permission denied" + advice);
  CHECK(Job(denied).execute().reason == "exit 2: sh: cannot create mine/a: Permission denied");
}

TEST_CASE("a script ends with its first failure, also within a pipe", "[supervisor]") {
  if (!fs::exists("/bin/bash")) return test::skip("there is no bash here");
  CHECK(Job("[[ a == a ]]; false | true; exit 4").execute().exit == 1);
}

TEST_CASE("a signal is shown by its name", "[supervisor]") {
  const JobEvent end = Job("kill -SEGV $$").execute();
  CHECK(end.state == JobState::Failed);
  CHECK(end.exit == 128 + SIGSEGV);
  CHECK(end.reason.find("Segmentation fault") != std::string::npos);
}

TEST_CASE("a missing program, output or metric fails the job and is named", "[supervisor]") {
  Job missing("");
  missing.spec.run_command = {"no-such-program"};
  CHECK(missing.execute().reason == "there is no program 'no-such-program' in PATH");

  Job output("true");
  output.spec.outputs = {{"model", "model.bin"}};
  CHECK(output.execute().reason ==
        "output 'model' is missing: model.bin was written neither below $DLFLOW_OUTPUTS nor in the "
        "working directory");

  Job metric("echo '{\"loss\": 1}' > $DLFLOW_SUMMARY");
  metric.spec.require = {{"accuracy", ">=", 0.5}};
  CHECK(metric.execute().reason ==
        "no metric 'accuracy', required >= 0.5; the step reported loss; write it into "
        "the file $DLFLOW_SUMMARY: {\"accuracy\":0.9}");
}

TEST_CASE("a supervisor that cannot record an end writes the reason to the job's stderr",
          "[supervisor]") {
  const Job job("true");
  job.run.write(fs::relative(job.attempt() / "job.json", job.run.path()), "{");
  CHECK(test::in_child([&] { return supervise(job.attempt(), 1, job.options); }) ==
        int(Supervision::Unrecorded));
  CHECK(read_file(job.attempt() / "stderr").starts_with("error: "));
}

TEST_CASE("parents have ended once each has a result or an end on record", "[supervisor]") {
  const auto ended = [](const std::vector<const Job*>& jobs) {
    std::vector<ParentRef> parents;
    for (const Job* job : jobs) parents.push_back({"parent", {}, job->spec.job_directory});
    return have_ended(parents);
  };
  const Job succeeded("true");
  const Job failed("false");
  const Job never_ran("true");
  succeeded.execute();
  failed.execute();
  CHECK(ended({&succeeded, &failed}));
  CHECK_FALSE(ended({&never_ran}));
  CHECK_FALSE(ended({&succeeded, &never_ran}));
}

TEST_CASE("a required metric that is text is reported with the expected number", "[supervisor]") {
  const auto advice = [](const std::string& value) {
    Job job("echo '{\"accuracy\": " + value + "}' > $DLFLOW_SUMMARY");
    job.spec.require = {{"accuracy", ">=", 0.5}};
    const std::string reason = job.execute().reason;
    return reason.substr(reason.find(';'));
  };
  CHECK(advice("\"0.7\"") == "; write a number into $DLFLOW_SUMMARY: {\"accuracy\":0.7}");
  CHECK(advice("\"\"") == "; write a number into $DLFLOW_SUMMARY: {\"accuracy\":0.9}");
  CHECK(advice("\"7 of 10\"") == "; write a number into $DLFLOW_SUMMARY: {\"accuracy\":0.9}");
}

TEST_CASE("each comparison of a requirement is correct, also at its bound", "[supervisor]") {
  JobSpec spec;
  const auto holds = [&](const std::string& comparison, double value) {
    spec.require = {{"loss", comparison, 0.5}};
    try {
      check_requirements(spec, {{"loss", value}}, {});
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  using Answers = std::vector<bool>;  // below the bound, at it, above it
  const auto answers = [&](const std::string& comparison) {
    return Answers{holds(comparison, 0.4), holds(comparison, 0.5), holds(comparison, 0.6)};
  };
  CHECK(answers("<") == Answers{true, false, false});
  CHECK(answers("<=") == Answers{true, true, false});
  CHECK(answers("==") == Answers{false, true, false});
  CHECK(answers(">=") == Answers{false, true, true});
  CHECK(answers(">") == Answers{false, false, true});
}

TEST_CASE("a metric may be NaN or infinite, and NaN meets no requirement", "[supervisor]") {
  Job job("echo '{\"loss\": NaN, \"best\": -Infinity, \"note\": \"x\"}' > $DLFLOW_SUMMARY");
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.metrics == Json({{"loss", "NaN"}, {"best", "-Infinity"}}));

  Job required("echo '{\"loss\": NaN}' > $DLFLOW_SUMMARY");
  required.spec.require = {{"loss", "<", 1}};
  CHECK(required.execute().reason == "loss is NaN, which is not a number; required < 1");
  JobSpec spec;
  spec.require = {{"best", "<", 0}};
  CHECK_NOTHROW(check_requirements(spec, {{"best", "-Infinity"}}, {}));
  spec.require = {{"best", "<", 0}};
  CHECK_THROWS_WITH(check_requirements(spec, {{"best", "Infinity"}}, {}),
                    "best is inf, required < 0");
}

TEST_CASE("an oversized list for a variable is reported with the alternative", "[supervisor]") {
  const std::string long_list(200'000, 'x');
  Job variable("true");
  variable.spec.environment = {{"SHARDS", long_list}};
  CHECK(variable.execute().reason ==
        "its variable SHARDS has 195.3 KiB, but a program can be given only 128.0 KiB; put a long "
        "list "
        "into the step's `with: {NAME: …}`, which the program finds in the JSON file $DLFLOW_WITH");
  Job argument("");
  argument.spec.run_command = {"true", long_list};
  CHECK(argument.execute().reason.starts_with("one of its arguments has 195.3 KiB"));
  Job many("");
  many.spec.run_command = Json::array({"true"});
  for (int i = 0; i < 40'000; ++i) many.spec.run_command.push_back(std::string(200, 'x'));
  CHECK(many.execute().reason.starts_with("its arguments and variables have "));

  Job file("cp $DLFLOW_WITH $DLFLOW_OUTPUTS/seen");
  file.spec.with = {{"shards", {long_list}}};
  CHECK(file.execute().state == JobState::Succeeded);
  CHECK(Json::parse(read_file(file.outputs() / "seen")) == file.spec.with);
}

TEST_CASE("a job gets the listed variables of the caller, and those that a profile adds",
          "[supervisor]") {
  const std::map<std::string, std::string> here = {{"SCRATCH", "/s"},
                                                   {"WORK", "/w"},
                                                   {"HF_HOME", "/h"},
                                                   {"VIRTUAL_ENV", "/v"},
                                                   {"I_MPI_FABRICS", "x"},
                                                   {"LOADEDMODULES", "m"},
                                                   {"ROCR_VISIBLE_DEVICES", "1"},
                                                   {"WANDB_MODE", "off"},
                                                   {"WANDB_DIR", "/d"},
                                                   {"WAND", "no"},
                                                   {"TZ", "UTC"},
                                                   {"LC_NUMERIC", "C"}};
  for (const auto& [name, value] : here) ::setenv(name.c_str(), value.c_str(), 1);
  const auto seen = [](const Job& job) {
    job.execute();
    std::map<std::string, std::string> variables;
    for (const std::string& line : split(read_file(job.outputs() / "env"), '\n')) {
      variables.emplace(line.substr(0, line.find('=')), line.substr(line.find('=') + 1));
    }
    return variables;
  };
  Job job("env > $DLFLOW_OUTPUTS/env");
  const auto variables = seen(job);
  for (const auto& [name, value] : here) {
    CAPTURE(name);
    const bool expected = !name.starts_with("WAND") && name != "TZ" && name != "LC_NUMERIC";
    CHECK(variables.contains(name) == expected);
    CHECK(is_inherited(name) == expected);
  }
  CHECK(variables.at("LANG") == "C.UTF-8");
  Job more("env > $DLFLOW_OUTPUTS/env");
  more.spec.inherit = {"WANDB_*"};
  more.spec.environment = {{"WANDB_DIR", "of the step"}};
  const auto with_more = seen(more);
  CHECK(with_more.at("WANDB_MODE") == "off");
  CHECK(with_more.at("WANDB_DIR") == "of the step");
  CHECK_FALSE(with_more.contains("WAND"));
}

TEST_CASE("a job does not run on a parent without a record of success", "[supervisor]") {
  Job job("touch $DLFLOW_OUTPUTS/ran");
  job.spec.parents = {{"data", Json::object(), job.run.path() / "steps" / "data"}};
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Blocked);
  CHECK(end.reason.find("step must not run: data has no record") == 0);
  CHECK_FALSE(fs::exists(job.outputs() / "ran"));
}

TEST_CASE("a job does not run on a parent's result from before its last failure", "[supervisor]") {
  Job job("touch $DLFLOW_OUTPUTS/ran");
  const fs::path data = job.run.path() / "steps" / "data";
  const auto attempt = [&data](int number, JobState state) {
    JobEvent event;
    event.state = state;
    make_directories(attempt_directory(data, number));
    write_file(attempt_directory(data, number) / "events.jsonl", to_line(event));
  };
  attempt(1, JobState::Succeeded);
  fs::create_directory_symlink("attempt-1/pass-1/outputs", data / "outputs");
  attempt(2, JobState::Failed);
  job.spec.parents = {{"data", Json::object(), data}};
  CHECK(job.execute().state == JobState::Blocked);
  CHECK_FALSE(fs::exists(job.outputs() / "ran"));
}

/// A line for each argument.
constexpr const char* kSeesArguments =
    "for f in \"$@\"; do echo \"$f\"; done > $DLFLOW_OUTPUTS/seen";

TEST_CASE("outputs of parents reach the command, and those of a matrix as separate arguments",
          "[supervisor]") {
  Job parent("echo x > $DLFLOW_OUTPUTS/f");
  parent.spec.outputs = {{"f", "f"}};
  REQUIRE(parent.execute().state == JobState::Succeeded);

  Job job("");
  const std::string reference = "${{ steps.make.outputs.f }}";
  job.spec.run_command = {"sh", "-c", kSeesArguments, "sh", reference};
  job.spec.parents = {{"make", {{"i", 1}}, parent.spec.job_directory},
                      {"make", {{"i", 2}}, parent.spec.job_directory}};
  CHECK(job.execute().state == JobState::Succeeded);
  const std::string path = (parent.spec.job_directory / "outputs" / "f").string();
  CHECK(read_file(job.outputs() / "seen") == path + "\n" + path + "\n");
}

TEST_CASE("a selection among parents has the values of their axes, also in further selections",
          "[supervisor]") {
  Job left("echo x > $DLFLOW_OUTPUTS/f");
  Job right("echo x > $DLFLOW_OUTPUTS/f");  // the same bytes
  for (Job* train : {&left, &right}) {
    train->spec.outputs = {{"f", "f"}};
    REQUIRE(train->execute().state == JobState::Succeeded);
  }
  const auto select_from = [](const Job& of) {
    const std::string from = (of.spec.job_directory / "outputs" / "f").string();
    return R"(cp ")" + from + R"(" $DLFLOW_OUTPUTS/f; echo '{"f": {"value": "f", "from": ")" +
           from + R"("}}' > $DLFLOW_OUTPUTS/outputs.json)";
  };
  Job best(select_from(right));
  best.spec.parents = {{"train", {{"lr", 1}}, left.spec.job_directory},
                       {"train", {{"lr", 2}}, right.spec.job_directory}};
  const JobEvent selected = best.execute();
  REQUIRE(selected.state == JobState::Succeeded);
  CHECK(selected.outputs.at("f").at("matrix") == Json{{"lr", 2}});
  CHECK_FALSE(selected.outputs.at("f").contains("from"));

  Job best_of_all(select_from(best));
  best_of_all.spec.parents = {{"best", {{"data", "a"}}, best.spec.job_directory}};
  REQUIRE(best_of_all.execute().state == JobState::Succeeded);
  Job after("");
  after.spec.run_command = {"sh", "-c", "printf '%s' \"$1\" > $DLFLOW_OUTPUTS/seen", "sh",
                            "${{ steps.best.matrix.data }} ${{ steps.best.matrix.lr + 1 }}"};
  after.spec.parents = {{"best", Json::object(), best_of_all.spec.job_directory}};
  REQUIRE(after.execute().state == JobState::Succeeded);
  CHECK(read_file(after.outputs() / "seen") == "a 3");

  Job wrong("");
  wrong.spec.run_command = {"echo", "${{ steps.best.matrix.width }}"};
  wrong.spec.parents = after.spec.parents;
  CHECK(wrong.execute().reason ==
        "${{ steps.best.matrix.width }}: steps.best.matrix.width: step 'best' selected a result of "
        "data=a,lr=2, which has no axis 'width'");
}

TEST_CASE("a job with a false condition or a skipped parent is skipped", "[supervisor]") {
  Job job("true");
  job.spec.condition = false;
  CHECK(job.execute().state == JobState::Skipped);

  Job child("");
  child.spec.run_command = {"echo", "${{ steps.step.outputs.f }}"};
  child.spec.parents = {{"step", Json::object(), job.spec.job_directory}};
  CHECK(child.execute().state == JobState::Skipped);
  Job after("true");  // waits for it, but uses none of its outputs
  after.spec.parents = child.spec.parents;
  CHECK(after.execute().state == JobState::Succeeded);
}

TEST_CASE("a job takes the results of those parents that did not fail, if failures are allowed",
          "[supervisor]") {
  Job good("echo x > $DLFLOW_OUTPUTS/f");
  good.spec.outputs = {{"f", "f"}};
  REQUIRE(good.execute().state == JobState::Succeeded);
  Job bad("exit 3");
  REQUIRE(bad.execute().state == JobState::Failed);
  const auto parent = [](const Job& of, int i, bool may_fail) {
    return ParentRef{"make", {{"i", i}}, of.spec.job_directory, false, may_fail};
  };
  Job job("");
  job.spec.run_command = {"sh", "-c", kSeesArguments, "sh", "${{ steps.make.outputs.f }}"};
  const std::string path = (good.spec.job_directory / "outputs" / "f").string();

  SECTION("a list has the successful parents") {
    job.spec.parents = {parent(good, 1, true), parent(bad, 2, true)};
    CHECK(job.execute().state == JobState::Succeeded);
    CHECK(read_file(job.outputs() / "seen") == path + "\n");
  }
  SECTION("the job is blocked if no parent succeeded") {
    job.spec.parents = {parent(bad, 1, true), parent(bad, 2, true)};
    const JobEvent end = job.execute();
    CHECK(end.state == JobState::Blocked);
    CHECK(end.reason == "nothing of make succeeded");
  }
  SECTION("a job that uses the failed parent is skipped") {
    job.spec.element = {{"i", 2}, {"lr", 1}};
    job.spec.parents = {parent(bad, 2, true)};
    CHECK(job.execute().state == JobState::Skipped);
  }
  SECTION("a parent that was not allowed to fail blocks it") {
    job.spec.parents = {parent(good, 1, true), parent(bad, 2, false)};
    CHECK(job.execute().state == JobState::Blocked);
  }
  SECTION("a parent that never ran has not failed, so it blocks") {
    Job absent("true");
    job.spec.parents = {parent(good, 1, true), parent(absent, 2, true)};
    CHECK(job.execute().state == JobState::Blocked);
  }
  SECTION("the scheduler reports that it was lost") {
    Job absent("true");
    job.spec.parents = {parent(good, 1, true), parent(absent, 2, true)};
    job.spec.parents[1].failed = true;
    CHECK(job.execute().state == JobState::Succeeded);
  }
  SECTION("a job with always() takes an empty list, also of parents that never ran") {
    Job absent("true");
    job.spec.always = true;
    job.spec.parents = {parent(bad, 1, false), parent(absent, 2, false)};
    CHECK(job.execute().state == JobState::Succeeded);
    CHECK(read_file(job.outputs() / "seen").empty());
  }
}

TEST_CASE("the second of two supervisors for one pass leaves at once", "[supervisor]") {
  const Job job("echo ran >> $DLFLOW_OUTPUTS/../../count");
  CHECK(job.execute().state == JobState::Succeeded);
  CHECK(wait_for(job.begin()).code == int(Supervision::NotOurs));
  CHECK(read_file(job.attempt() / "count") == "ran\n");
}

TEST_CASE("an end that is not durably on disk does not count as recorded", "[supervisor]") {
  const Job job("true");
  job.write_spec();
  const auto ended = test::run_without(
      SYS_fdatasync, EIO, [&] { ::_exit(int(supervise(job.attempt(), 1, job.options))); });
  if (!ended) return test::skip("processes cannot be traced here");
  CHECK(*ended == int(Supervision::Unrecorded));
}

TEST_CASE("the environment is as documented, whatever the caller's", "[supervisor]") {
  ::setenv("PYTHONPATH", "/somewhere", 1);
  Job job("env > $DLFLOW_OUTPUTS/env");
  job.spec.params = {{"warm-up", 3}};
  job.spec.element = {{"lr", 0.1}};
  job.spec.environment = {{"EXTRA", "yes"}};
  job.execute();
  const std::string env = read_file(job.outputs() / "env");
  CHECK(env.find("PYTHONPATH") == std::string::npos);
  for (const char* line : {"DLFLOW_PARAM_WARM_UP=3\n", "DLFLOW_MATRIX_LR=0.1\n", "EXTRA=yes\n",
                           "DLFLOW_ATTEMPT=1\n", "DLFLOW_RANKS=1\n", "DLFLOW_JOB=step\n"}) {
    CAPTURE(line);
    CHECK(env.find(line) != std::string::npos);
  }
}

TEST_CASE("a publication has a record file only if it is not empty", "[supervisor]") {
  FreshFileHashes hashes;
  SECTION("no output: the end is marked so") {
    const Job job(":");
    CHECK(job.execute().published_nothing);
    CHECK_FALSE(fs::exists(job.attempt() / "pass-1/published.jsonl"));
    CHECK(find_change(job.spec.job_directory, hashes) == std::nullopt);
  }
  SECTION("an undeclared file") {
    const Job job("echo x > $DLFLOW_OUTPUTS/x");
    CHECK_FALSE(job.execute().published_nothing);
    CHECK(fs::exists(job.attempt() / "pass-1/published.jsonl"));
    CHECK(find_change(job.spec.job_directory, hashes) == std::nullopt);
  }
  SECTION("a failure publishes nothing, and needs no mark") {
    CHECK_FALSE(Job("exit 3").execute().published_nothing);
  }
}
