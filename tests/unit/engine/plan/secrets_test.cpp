#include "engine/plan/secrets.h"

#include <sys/stat.h>

#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using test::TempDir;

namespace {

/// Returns a plan of `train` with two secrets, `push` with one, and `plot` with none, one job each.
Plan secret_plan() {
  Plan plan;
  plan.workflow = test::parsed(R"(
steps:
  train: {run: ./train, secrets: [WANDB_API_KEY, TOKEN]}
  push: {run: ./push, secrets: [TOKEN]}
  plot: {run: ./plot}
)");
  for (uint32_t step = 0; step < plan.workflow.steps.size(); ++step) {
    plan.jobs.push_back(
        {.step = step, .name = JobName(plan.workflow.steps[step].name), .place = {}});
  }
  return plan;
}

bool always(uint32_t) { return true; }

std::string refused_secret(const SecretSources& sources) {
  return test::error_of([&] { find_secrets(secret_plan(), always, sources); });
}

}  // namespace

TEST_CASE("a secret comes from the environment, else from the user's file, else from the run",
          "[secrets]") {
  const TempDir folder;
  const auto own = folder.write("secrets", "TOKEN=from file\nWANDB_API_KEY=from file\n");
  const Secrets run = {{"TOKEN", "from run"}, {"WANDB_API_KEY", "from run"}};
  CHECK(find_secrets(secret_plan(), always, {{"TOKEN_2=no", "TOKEN=from environment"}, own, run}) ==
        Secrets{{"TOKEN", "from environment"}, {"WANDB_API_KEY", "from file"}});
  CHECK(find_secrets(secret_plan(), always, {{"TOKEN=from environment"}, {}, run}) ==
        Secrets{{"TOKEN", "from environment"}, {"WANDB_API_KEY", "from run"}});
}

TEST_CASE("only the secrets of steps that may run are asked for", "[secrets]") {
  const auto push_alone = [](uint32_t job) { return job == 1; };
  CHECK(find_secrets(secret_plan(), push_alone, {{"TOKEN=value", "WANDB_API_KEY=other"}}) ==
        Secrets{{"TOKEN", "value"}});
  const auto plot_alone = [](uint32_t job) { return job == 2; };
  CHECK(find_secrets(secret_plan(), plot_alone, {{}}).empty());
}

TEST_CASE("a missing secret is reported with its step and both ways to give it", "[secrets]") {
  const TempDir folder;
  const auto own = folder.path() / "secrets";
  CHECK(refused_secret({{"TOKEN=value"}, own}) ==
        "/tmp/workflow.yaml:3:34: error: step 'train' needs the secret WANDB_API_KEY, which has no "
        "value: `export WANDB_API_KEY=…` first, or add a line WANDB_API_KEY=… to " +
            own.string() + " (chmod 600)");
  CHECK(refused_secret({{}}) ==
        "/tmp/workflow.yaml:3:34: error: step 'train' needs the secrets TOKEN, WANDB_API_KEY, "
        "which have no value: `export TOKEN=…` first");
}

TEST_CASE("the user's file is used only if private, and is read only if needed", "[secrets]") {
  const TempDir folder;
  const auto own = folder.write("secrets", "TOKEN=value\nWANDB_API_KEY=value\n");
  REQUIRE(::chmod(own.c_str(), 0644) == 0);
  CHECK(refused_secret({{"TOKEN=value"}, own}).find("type `chmod 600 ") != std::string::npos);
  CHECK(refused_secret({{"TOKEN=value", "WANDB_API_KEY=value"}, own}).empty());
}

TEST_CASE("a value that cannot be kept secret is refused without showing it", "[secrets]") {
  CHECK(refused_secret({{"TOKEN=pin"}}) ==
        "the secret TOKEN ($TOKEN) has fewer than 4 characters: it is too short to be masked in "
        "logs");
  const std::string key = refused_secret({{"TOKEN=-----BEGIN\nkey"}});
  CHECK(key.find("put such a text into a file") != std::string::npos);
  CHECK(key.find("BEGIN") == std::string::npos);
}

TEST_CASE("a webhook's address is a secret of the run, needed if a job may run", "[secrets]") {
  Plan told = secret_plan();
  told.workflow.notify.webhook = "HOOK";
  told.workflow.notify.location = {2, 9};
  const auto plot_alone = [](uint32_t job) { return job == 2; };
  const auto train_alone = [](uint32_t job) { return job == 0; };
  const auto nothing = [](uint32_t) { return false; };
  CHECK(find_secrets(told, plot_alone, {{"HOOK=https://example.org/x"}}) ==
        Secrets{{"HOOK", "https://example.org/x"}});
  CHECK(find_secrets(told, train_alone,
                     {{"HOOK=https://example.org/x", "WANDB_API_KEY=abcdef", "TOKEN=ghijkl"}})
            .contains("HOOK"));
  CHECK(find_secrets(told, nothing, {{}}).empty());
  CHECK_THROWS_WITH(find_secrets(told, plot_alone, {{}}),
                    "/tmp/workflow.yaml:2:9: error: notify.webhook is the secret HOOK, which has "
                    "no value: `export HOOK=https://…` first");
  CHECK_THROWS_WITH(find_secrets(told, train_alone, {{"WANDB_API_KEY=abcdef", "TOKEN=ghijkl"}}),
                    Catch::Contains("the secret HOOK, which has no value"));
  for (const std::string wrong : {"file:///etc/passwd", "https://x\"y", "https://x y"}) {
    CHECK_THROWS_WITH(find_secrets(told, plot_alone, {{"HOOK=" + wrong}}),
                      "/tmp/workflow.yaml:2:9: error: the secret HOOK of notify.webhook is not an "
                      "address; it must begin with https://");
  }
}
