#include "engine/plan/job.h"

#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

std::vector<JobState> all_states() {
  std::vector<JobState> states;
  for (int i = 0; i <= int(JobState::Skipped); ++i) states.push_back(JobState(i));
  return states;
}

/// Returns the table below "## States of a job": state -> possible next states.
std::map<std::string, std::set<std::string>> documented_table() {
  std::istringstream document(read_file(DLFLOW_SOURCE_DIR "/docs/contributor/reference.md"));
  std::map<std::string, std::set<std::string>> table;
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("## ")) inside = line == "## States of a job";
    if (!inside || !line.starts_with("| ") || line.starts_with("| state ")) continue;
    const auto cells = split(line, '|');
    auto& next = table[std::string(trim(cells.at(1)))];
    for (const std::string& state : split(std::string(trim(cells.at(2))), ',')) {
      if (trim(state) != "-") next.emplace(trim(state));
    }
  }
  return table;
}

/// Every field has a value that differs from its default.
JobSpec example_spec() {
  JobSpec spec;
  spec.run = "mnist-7f3a";
  spec.job = "train[lr=0.1]";
  spec.step = "train";
  spec.element = {{"lr", 0.1}};
  spec.uses = "train";
  spec.run_command = {"./a", 1};
  spec.with = {{"epochs", 3}, {"data", "${{ steps.data.outputs.path }}"}};
  spec.environment = {{"A", "b"}};
  spec.inherit = {"WANDB_*"};
  spec.secrets = {"TOKEN", "WANDB_API_KEY"};
  spec.condition = "${{ steps.data.metrics.ok }}";
  spec.params = {{"epochs", 3}};
  spec.late_params = {{"late", 4}};
  spec.sees_run = true;
  spec.launch = Launch::Node;
  spec.resources = {.ranks = 2,
                    .cpus_per_rank = 3,
                    .gpus_per_rank = 1,
                    .memory_bytes = uint64_t{1} << 40,
                    .walltime = std::chrono::minutes(20)};
  spec.checkpoint = CheckpointPolicy{.unit = CheckpointPolicy::Unit::Seconds,
                                     .every = 30,
                                     .keep = 4,
                                     .signal = CheckpointPolicy::Signal::Term,
                                     .lead = std::chrono::minutes(5),
                                     .newer = "ckpt/*.pt"};
  spec.container = ContainerSpec{"torch",
                                 "oci:/images/torch",
                                 Digest::of_hex(std::string(64, '1')),
                                 {{"run", "make"}},
                                 {"podman", {"podman"}, "P2", {"--x"}, {"/data"}}};
  spec.base = "/home/ann/workflow";
  spec.retry = {.attempts = 5,
                .on = {RetryCause::Failure, RetryCause::NodeFailure, RetryCause::Preempted,
                       RetryCause::Timeout, RetryCause::OutOfMemory}};
  spec.allow_failure = true;
  spec.always = true;
  spec.require = {{"accuracy", ">=", 0.88}};
  spec.outputs = {{"model", "model.bin"}};
  spec.lists = {"parts"};
  spec.parents = {{"data", Json::object(), "/runs/mnist-7f3a/steps/data", true, true, true}};
  spec.inputs = {{"models/lenet.yaml", "/runs/mnist-7f3a/sources/models/lenet.yaml"}};
  spec.data = {"/data/set"};
  spec.sources = {{{"/runs/mnist-7f3a/sources/models/lenet.yaml", "0a"}},
                  {{"/data/set", "0b"}},
                  {{"/venv", "0c"}},
                  {{"MODE", "fast"}},
                  {{"tool", "/bin/tool 0d"}},
                  {{"WANDB_MODE", "0e"}}};
  spec.run_directory = "/runs/mnist-7f3a";
  spec.job_directory = "/runs/mnist-7f3a/steps/train/lr=0.1";
  spec.cache = "/cache";
  spec.cache_budget_bytes = 5;
  spec.scratch = "/local";
  spec.scratch_budget_bytes = 6;
  spec.node_memory_bytes = 7;
  spec.walltime_limit = std::chrono::hours(3);
  spec.launcher = {"mpirun", "-np", "2"};
  spec.setup = {"module load mpi"};
  spec.fingerprint_base = R"({"kind":"train"})";
  spec.reuse = false;
  return spec;
}

}  // namespace

TEST_CASE("a change of state is legal exactly if the documented table lists it", "[job]") {
  const auto table = documented_table();
  REQUIRE(table.size() == all_states().size());
  for (const JobState from : all_states()) {
    for (const JobState to : all_states()) {
      INFO(name(from) << " -> " << name(to));
      CHECK(may_become(from, to) ==
            table.at(std::string(name(from))).contains(std::string(name(to))));
    }
  }
}

TEST_CASE("a state's name is read back as that state", "[job]") {
  for (const JobState state : all_states()) CHECK(job_state(name(state)) == state);
  CHECK(name(JobState::TimedOut) == "timed-out");
  CHECK_THROWS_WITH(job_state("done"), Catch::Contains("'done' is not a job state"));
}

TEST_CASE(
    "a final state stays until a new attempt or a late record of success, and only success "
    "lets dependents run",
    "[job]") {
  for (const JobState state : all_states()) {
    INFO(name(state));
    for (const JobState next : all_states()) {
      if (state == JobState::Lost || state == JobState::Blocked) continue;  // not certain
      if (state == JobState::Cancelled && next == JobState::Succeeded) continue;
      if (is_final(state) && may_become(state, next)) CHECK(next == JobState::Planned);
    }
    if (satisfies_dependents(state)) CHECK(is_final(state));
  }
  CHECK(satisfies_dependents(JobState::Succeeded));
  CHECK(satisfies_dependents(JobState::Cached));
  CHECK_FALSE(satisfies_dependents(JobState::Skipped));
}

TEST_CASE("a value's variable is upper case without special characters", "[job]") {
  CHECK(environment_name("DLFLOW_PARAM_", "warm-up") == "DLFLOW_PARAM_WARM_UP");
  CHECK(environment_name("DLFLOW_MATRIX_", "lr2") == "DLFLOW_MATRIX_LR2");
}

TEST_CASE("job.json gives back what was written", "[job]") {
  const Json json = to_json(example_spec());
  CHECK(to_json(job_spec_from_json(Json::parse(json.dump()))) == json);
  CHECK(job_spec_from_json(json).resources == example_spec().resources);
  CHECK(job_spec_from_json(json).checkpoint->unit == CheckpointPolicy::Unit::Seconds);
  for (const auto& [key, value] : json.items()) {
    INFO(key);
    const Json plain = to_json(JobSpec());
    CHECK((!plain.contains(key) || value != plain.at(key)));
  }
  CHECK(to_json(job_spec_from_json(to_json(JobSpec()))) == to_json(JobSpec()));
}

TEST_CASE("job.json of a dlflow that did not check packages is read", "[job]") {
  Json json = to_json(example_spec());
  json["sources"].erase("packages");
  json["sources"].erase("variables");
  json["sources"].erase("programs");
  json["sources"].erase("inherited");
  const JobSpec spec = job_spec_from_json(json);
  CHECK(spec.sources.packages.empty());
  CHECK(spec.sources.variables.empty());
  CHECK(spec.sources.programs.empty());
  CHECK(spec.sources.inherited.empty());
  CHECK(spec.sources.frozen == example_spec().sources.frozen);
}

TEST_CASE("each unit of a checkpoint and each cause of a retry has its word", "[job]") {
  using Unit = CheckpointPolicy::Unit;
  JobSpec spec;
  for (const auto& [unit, word] : std::map<Unit, std::string>{
           {Unit::Epochs, "epochs"}, {Unit::Steps, "steps"}, {Unit::Seconds, "seconds"}}) {
    spec.checkpoint.emplace().unit = unit;
    CHECK(to_json(spec).at("checkpoint").at("unit") == word);
    CHECK(job_spec_from_json(to_json(spec)).checkpoint->unit == unit);
  }
  CHECK(to_json(example_spec()).at("retry").at("on") ==
        Json({"failure", "node-failure", "preempted", "timeout", "out-of-memory"}));
  CHECK(job_spec_from_json(to_json(example_spec())).retry.on == example_spec().retry.on);
  Json odd = to_json(example_spec());
  odd["checkpoint"]["unit"] = "years";
  CHECK_THROWS_WITH(job_spec_from_json(odd), "'years' is not a unit");
  odd = to_json(example_spec());
  odd["retry"]["on"] = {"boredom"};
  CHECK_THROWS_WITH(job_spec_from_json(odd), "\"boredom\" is no cause of a retry");
}

TEST_CASE("a job.json in which a key is missing or odd is refused", "[job]") {
  const Json whole = to_json(example_spec());
  for (const auto& [key, value] : whole.items()) {
    if (key == "container") continue;               // absent without an image
    if (key == "lists" || key == "base") continue;  // absent in an older dlflow
    INFO(key);
    Json json = whole;
    json.erase(key);
    CHECK_THROWS_WITH(job_spec_from_json(json), Catch::Contains("not a job.json"));
  }
  CHECK_THROWS_WITH(job_spec_from_json(Json("text")), Catch::Contains("not a job.json"));
}

TEST_CASE("an event is one line of JSON and is read back equal", "[job]") {
  JobEvent event;
  event.job = "train[lr=0.1]";
  event.attempt = 2;
  event.state = JobState::Failed;
  event.at = from_rfc3339("2026-11-21T08:00:00.123Z");
  event.backend_id = "4711";
  event.node = "n1";
  event.exit = 3;
  event.reason = "exit 3:\n\"NaN\" → stop";
  event.fingerprint = Fingerprint::of_hex(std::string(64, 'f'));
  event.outputs["model"] = {{"value", "/m"}, {"sha256", "0a"}};
  event.metrics = {{"loss", 0.5}};
  event.published_nothing = true;
  event.reused_from = "/runs/other/steps/train";
  event.failed_tries = 2;
  event.idle_passes = 1;
  event.preempted = true;
  event.walltime = std::chrono::seconds(77);
  event.failed_node = "n7";
  event.earlier_error_bytes = 17;
  event.used = PassUsage{std::chrono::milliseconds(1234), 5};
  const std::string line = to_line(event);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(job_event_from_line(line) == event);
}

TEST_CASE("an event's line omits empty fields", "[job]") {
  JobEvent note;
  note.at = from_rfc3339("2026-11-21T08:00:00.123Z");
  note.reason = "requeued once at walltime";
  CHECK(to_line(note) ==
        R"({"at":"2026-11-21T08:00:00.123Z","reason":"requeued once at walltime"})");
  CHECK_FALSE(job_event_from_line(to_line(note)).state.has_value());
}

TEST_CASE("the energy in a line of an earlier version is ignored", "[job]") {
  const JobEvent event = job_event_from_line(
      R"({"at":"2026-11-21T08:00:00.123Z","used":{"cpu_ms":9,"energy_j":7.5,"memory_bytes":5}})");
  CHECK(event.used == PassUsage{std::chrono::milliseconds(9), 5});
}

TEST_CASE("invalid UTF-8 does not make a line unreadable", "[job]") {
  JobEvent event;
  event.state = JobState::Failed;
  event.reason = "stderr: \xff\xfe";
  CHECK(job_event_from_line(to_line(event)).reason.starts_with("stderr: "));
}

TEST_CASE("a line that is not an event is refused", "[job]") {
  const std::string line = GENERATE("", "{", "[]", "{}", R"({"at":"yesterday"})",
                                    R"({"at":"2026-11-21T08:00:00.123Z","state":"done"})",
                                    R"({"at":"2026-11-21T08:00:00.123Z","fingerprint":"../x"})");
  INFO(line);
  CHECK_THROWS_AS(job_event_from_line(line), Error);
}

TEST_CASE("a line of events nested a million levels deep is refused in a short sentence",
          "[job][attack]") {
  const std::string open = GENERATE("[", "{\"a\":");
  std::string line = R"({"at":"2026-11-21T08:00:00.123Z","state":"succeeded","outputs":{"o":)";
  for (int i = 0; i < 1'000'000; ++i) line += open;
  try {
    job_event_from_line(line);
    FAIL("it was read");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).size() < 200);
  }
}

TEST_CASE("an event with malformed outputs or metrics is refused", "[job][attack]") {
  const std::string odd = GENERATE(R"("outputs":7)", R"("outputs":[])", R"("outputs":{"o":"x"})",
                                   R"("outputs":{"o":{"value":"x","sha256":7}})",
                                   R"("metrics":"accuracy")", R"("metrics":[1])");
  INFO(odd);
  CHECK_THROWS_AS(
      job_event_from_line(R"({"at":"2026-11-21T08:00:00.123Z","state":"succeeded",)" + odd + "}"),
      Error);
}

TEST_CASE("an event's message cannot control a terminal", "[job][attack]") {
  const JobEvent event = job_event_from_line(
      R"({"at":"2026-11-21T08:00:00.123Z","state":"failed","node":"n\u009b31m",)"
      R"("reason":"\u001b]0;title\u0007 one\ntwo \u202egnp.exe","reused_from":"\u001b[2J"})");
  CHECK(event.reason == "\\u001b]0;title\\u0007 one\ntwo \\u202egnp.exe");
  CHECK(event.node == "n\\u009b31m");
  CHECK(event.reused_from == "\\u001b[2J");
}
