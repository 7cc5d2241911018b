#include "base/error.h"
#include "base/file.h"
#include "base/local_files.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "engine/plan/job.h"
#include "engine/plan/plan_json.h"
#include "engine/supervisor/results.h"
#include "engine/supervisor/shared_results.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// Checks that an event that was read can be written, copied, compared, and shown.
void read_event(const std::string& line) {
  const JobEvent event = job_event_from_line(line);
  const JobEvent copy = event;
  DLFLOW_CHECK(to_line(copy) == to_line(event));
  DLFLOW_CHECK(escaped_lines(event.reason) == event.reason);  // it is escaped already
  for (const Json& output : event.outputs)
    DLFLOW_CHECK(output.value("sha256", "").size() < 1 << 20);
}

/// Reads reports as a program leaves them in its folders.
void read_reports(const fs::path& folder, const char* name, const std::string& text) {
  JobSpec spec;
  spec.job_directory = folder / "job";
  AttemptFiles files;
  files.attempt = spec.job_directory / "attempt-1";
  make_directories(files.outputs());
  write_file_atomic((name[0] == 'o' ? files.outputs() : files.own()) / name, text);
  const Json json = name[0] == 'o' ? collect_outputs(spec, files).values : read_metrics(files);
  DLFLOW_CHECK(json.is_object() && Json(json) == json);
  (void)json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A job, and a cache shared by users.
struct SharingJob {
  explicit SharingJob(const fs::path& folder) {
    spec.job = "a";
    spec.step = "a";
    spec.cache = folder / "cache";
    spec.run_directory = folder / "run";
    spec.job_directory = spec.run_directory / "steps/a";
    files.attempt = spec.job_directory / "attempt-1";
    make_directories(files.outputs());
    make_directories(spec.cache);
    fs::permissions(spec.cache, fs::perms::group_write, fs::perm_options::add);
  }
  fs::path entry() const { return spec.cache / "results/ff" / fingerprint.hex(); }

  const Fingerprint fingerprint = Fingerprint::of_hex(std::string(64, 'f'));
  JobSpec spec;
  AttemptFiles files;
};

/// Returns the record of a shared result: one empty file and one number.
std::string shared_record() {
  const test::TempDir folder;
  SharingJob job(folder.path());
  write_file_atomic(job.files.outputs() / "o", "");
  write_file_atomic(job.files.outputs() / "outputs.json", R"({"o": "o", "n": 7})");
  Outputs outputs = collect_outputs(job.spec, job.files);
  JobEvent end;
  end.outputs = outputs.values;
  end.metrics = {{"loss", 0.5}};
  end.fingerprint = job.fingerprint;
  publish(job.spec, job.files, std::move(outputs.publication));
  DLFLOW_CHECK(share_result(job.spec, end));
  return read_file(job.entry() / "result.json");
}

/// Reads the record of another user's shared result. Everything taken from it must lie in the job's
/// folders, and must be a possible result of a job.
void read_shared(const fs::path& folder, const std::string& text) {
  SharingJob job(folder);
  make_directories(job.entry() / "outputs");
  write_file_atomic(job.entry() / "outputs/o", "");
  write_file_atomic(job.entry() / "outputs/outputs.json", R"({"o": "o", "n": 7})");
  write_file_atomic(job.entry() / "result.json", text);
  list_shared_results(job.spec.cache);
  const TakenResult taken = take_shared_result(job.spec, job.files, job.fingerprint);
  if (!taken.result) return;
  JobEvent end;
  end.outputs = taken.result->outputs;
  end.metrics = taken.result->metrics;
  const JobEvent recorded = job_event_from_line(to_line(end));
  DLFLOW_CHECK(recorded.outputs == end.outputs && recorded.metrics == end.metrics);
  for (const auto& [name, output] : end.outputs.items()) {
    const Json& value = output.at("value");
    if (!value.is_string()) continue;
    const fs::path place = value.get<std::string>();
    DLFLOW_CHECK(!place.is_absolute() || is_below(place, job.spec.job_directory));
  }
}

void read(char kind, const std::string& text, const test::TempDir& folder) {
  if (kind == 'e') return read_event(text);
  if (kind == 'o') return read_reports(folder.path(), "outputs.json", text);
  if (kind == 'm') return read_reports(folder.path(), "metrics.json", text);
  if (kind == 's') return read_shared(folder.path(), text);
  if (kind == 'j') return (void)job_spec_from_json(parse_json(text));
  if (kind == 'p') frozen_settings_from_json(parse_json_or_throw(text, "plan.json"));
}

std::string nested(const std::string& before, const std::string& open) {
  std::string text = before;
  for (int i = 0; i < 50'000; ++i) text += open;
  return text;
}

}  // namespace

/// The first byte gives the kind of the rest: 'e' a line of events.jsonl, 'o' outputs.json, 'm'
/// metrics.json, 's' result.json of a shared result, 'j' job.json, 'p' plan.json.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const test::TempDir folder;
  try {
    read(char(data[0]), std::string(data + 1, data + size), folder);
  } catch (const Error&) {
    // Most inputs are refused.
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  JobEvent event;
  event.state = JobState::Succeeded;
  event.reason = "error: \x1b[31m";
  event.outputs = {{"o", {{"value", "x"}, {"sha256", "0"}}}};
  event.metrics = {{"accuracy", 0.5}};
  return {"e" + to_line(event),
          nested(R"(e{"at":"2026-11-21T08:00:00.123Z","outputs":{"o":)", "["),
          nested("o", R"({"o":)"),
          nested("m", "["),
          R"(o{"a": "text", "b": {"value": [1, {"c": 2}], "sha256": "0"}, "c": {"sha256": 7}})",
          R"(m{"accuracy": 0.5, "loss": null, "n": [1]})",
          "s" + shared_record(),
          "j" + to_json(JobSpec{}).dump(),
          R"(p{"dlflow": "0.1.0", "run": "a-1"})"};
}
