#include "engine/plan/secrets.h"

#include <signal.h>
#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/unit/engine/supervisor/job.h"

using namespace dlflow;

namespace {

namespace fs = std::filesystem;

constexpr const char* kToken = "hunter2-hunter2";

/// A job of a run with two secrets; the job may have $TOKEN.
class SecretJob : public test::Job {
 public:
  explicit SecretJob(const std::string& script) : Job(script) {
    spec.secrets = {"TOKEN"};
    write_secrets(secrets_file(run.path()), {{"TOKEN", kToken}, {"OTHER", "nobody's"}});
  }

  std::string read(const char* name) const { return read_file(attempt() / name); }

  /// Waits until `file` holds `text`.
  void wait_for_text(const fs::path& file, const std::string& text) const {
    for (int i = 0; i < 6000 && read_file_if_exists(file).value_or("") != text; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    REQUIRE(read_file_if_exists(file).value_or("") == text);
  }

  /// Returns the files of the run that hold the token, except RUN/secrets.
  std::vector<std::string> files_with_token() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(run.path())) {
      if (!entry.is_regular_file() || entry.path() == secrets_file(run.path())) continue;
      if (read_file(entry.path()).find(kToken) != std::string::npos) {
        files.push_back(entry.path().string());
      }
    }
    return files;
  }
};

}  // namespace

TEST_CASE("a program has the secrets of its step, and they are removed from its output",
          "[secrets]") {
  const SecretJob job(
      "[ ${#TOKEN} = 15 ] && [ -z \"${OTHER+set}\" ]\n"
      "echo \"token: $TOKEN.\"; printf 'hunter2-'; printf 'hunter2\\n'; echo \"no $TOKEN\" >&2");
  CHECK(job.execute().state == JobState::Succeeded);
  CHECK(job.read("stdout") == "token: ***.\n***\n");
  CHECK(job.read("stderr") == "no ***\n");
  CHECK(job.files_with_token().empty());
}

TEST_CASE("the end of a job reveals no secret in reason, metrics or outputs", "[secrets]") {
  const SecretJob failed("echo \"error: $TOKEN is not accepted\" >&2; exit 3");
  CHECK(failed.execute().reason == "exit 3: error: *** is not accepted");
  CHECK(failed.files_with_token().empty());

  const SecretJob job(
      "echo '{\"loss\": 1}' > $DLFLOW_METRICS; echo \"{\\\"message\\\": \\\"as $TOKEN\\\"}\" "
      ">> $DLFLOW_METRICS\n"
      "echo \"{\\\"accuracy\\\": 0.5, \\\"of $TOKEN\\\": 1}\" > $DLFLOW_SUMMARY\n"
      "echo \"{\\\"url\\\": \\\"https://$TOKEN@host\\\"}\" > $DLFLOW_OUTPUTS/outputs.json");
  const JobEvent end = job.execute();
  CHECK(end.metrics == Json{{"accuracy", 0.5}, {"of ***", 1}});
  CHECK(end.outputs["url"]["value"] == "https://***@host");
  CHECK(job.read("metrics.jsonl") == "{\"loss\": 1}\n{\"message\":\"as ***\"}\n");
  CHECK(job.files_with_token().empty());
}

TEST_CASE("a program's output can be read before it ends", "[secrets]") {
  const SecretJob job(
      "printf 'begun, h'; while [ ! -e go ]; do sleep 0.02; done; echo \"unt; $TOKEN\"");
  const pid_t supervisor = job.begin();
  job.wait_for_text(job.attempt() / "stdout", "begun, ");  // h may be the beginning of the token
  job.run.write(fs::relative(job.outputs().parent_path() / "work/go", job.run.path()), "");
  CHECK(job.finish(supervisor).state == JobState::Succeeded);
  CHECK(job.read("stdout") == "begun, hunt; ***\n");
}

TEST_CASE("the reports of a running program reveal no secret", "[secrets]") {
  const SecretJob job(
      "echo '{\"loss\": 2}' > $DLFLOW_METRICS; echo \"{\\\"message\\\": \\\"as $TOKEN\\\"}\" "
      ">> $DLFLOW_METRICS\nwhile [ ! -e go ]; do sleep 0.02; done\n"
      "echo '{\"loss\": 1}' > $DLFLOW_METRICS; printf '{\"loss\": 0}' >> $DLFLOW_METRICS");
  const pid_t supervisor = job.begin();
  job.wait_for_text(job.attempt() / "metrics.jsonl", "{\"loss\": 2}\n{\"message\":\"as ***\"}\n");
  job.run.write(fs::relative(job.outputs().parent_path() / "work/go", job.run.path()), "");
  CHECK(job.finish(supervisor).state == JobState::Succeeded);
  CHECK(job.read("metrics.jsonl") == "{\"loss\": 1}\n{\"loss\": 0}");
  CHECK(job.files_with_token().empty());
}

TEST_CASE("the last bytes of a killed program are kept, without half a value", "[secrets]") {
  const SecretJob whole("printf 'step 41: ok, hun'; kill -9 $$");
  CHECK(whole.execute().exit == 128 + SIGKILL);
  CHECK(whole.read("stdout") == "step 41: ok, hun");
  const SecretJob half("printf 'step 41: hunter2-hun'; kill -9 $$");
  half.execute();
  CHECK(half.read("stdout") == "step 41: ***");
}

TEST_CASE("a process left by a program does not keep its supervisor waiting", "[secrets]") {
  const SecretJob job("setsid sleep 60 & echo done");
  CHECK(job.execute().state == JobState::Succeeded);
  CHECK(job.read("stdout") == "done\n");
}

TEST_CASE("a large output without a line end is kept whole", "[secrets]") {
  constexpr size_t kMuch = size_t{32} << 20;
  const SecretJob job("head -c " + std::to_string(kMuch) +
                      " /dev/zero | tr '\\0' h; printf '%s' \"$TOKEN\"");
  CHECK(job.execute().state == JobState::Succeeded);
  CHECK(job.read("stdout") == std::string(kMuch, 'h') + "***");
}

TEST_CASE("output that cannot be written ends the program, with that reason", "[secrets]") {
  const SecretJob job("while echo 'much, much, much'; do :; done");
  fs::create_directories(job.attempt());
  fs::create_symlink("/dev/full", job.attempt() / "stdout");
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Failed);
  CHECK_THAT(end.reason, Catch::StartsWith("cannot write " + (job.attempt() / "stdout").string() +
                                           ": No space left on device"));
}

TEST_CASE("a program with secrets that cannot be started fails its job", "[secrets]") {
  SecretJob job("");
  job.spec.run_command = {"no-such-program"};
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Failed);
  CHECK(end.reason == "there is no program 'no-such-program' in PATH");
}

TEST_CASE("a run without its secrets fails a job before it starts, with the reason", "[secrets]") {
  const SecretJob job("touch $DLFLOW_OUTPUTS/ran");
  remove_secrets(job.run.path());
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Failed);
  CHECK(end.reason == "the secret TOKEN is not in " + (job.run.path() / "secrets").string() +
                          "; set it in the environment, and `dlflow resubmit` adds it");
  CHECK_FALSE(fs::exists(job.attempt() / "outputs/ran"));
}

TEST_CASE("a secret overrides variables of the same name from the profile and the caller",
          "[secrets]") {
  ::setenv("https_proxy", "http://caller", 1);
  SecretJob job("[ \"$https_proxy\" = \"http://me:pass@proxy\" ]");
  job.spec.secrets = {"https_proxy"};
  job.spec.environment = {{"https_proxy", "http://profile"}};
  write_secrets(secrets_file(job.run.path()), {{"https_proxy", "http://me:pass@proxy"}});
  CHECK(job.execute().state == JobState::Succeeded);
  ::unsetenv("https_proxy");
}
