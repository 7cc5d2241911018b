#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/parents.h"
#include "tests/support/fake_clock.h"

namespace dlflow::test {

/// Creates the outputs of a job: their folder, the list of its files, and, in `event`, the
/// fingerprint that later runs look up. \param attempt  its folder, with job.json in it.
inline void publish(const std::filesystem::path& attempt, const Json& outputs, JobEvent& event) {
  const auto spec = job_spec_from_json(Json::parse(read_file(attempt / "job.json")));
  event.outputs = outputs;
  event.fingerprint = fingerprint(spec.fingerprint_base, spec.element, read_parents(spec));
  make_directories(attempt / "pass-1" / "outputs");
  const Publication left{{"outputs"}, list_published(attempt / "pass-1/outputs", "outputs"), {}};
  event.published_nothing = is_empty(left);
  if (!event.published_nothing) write_publication(attempt / "pass-1", left);
  std::filesystem::remove(spec.job_directory / "outputs");
  std::filesystem::create_directory_symlink(attempt.filename() / "pass-1/outputs",
                                            spec.job_directory / "outputs");
}

/// Records a state in an attempt's file, as its supervisor would. Returns the event.
inline JobEvent record_state(const std::filesystem::path& attempt, JobState state, Time now,
                             std::optional<int> exit = {}, const Json& outputs = Json::object(),
                             const std::string& backend_id = "") {
  JobEvent event;
  event.state = state;
  event.at = now;
  event.exit = exit;
  event.backend_id = backend_id;
  if (state == JobState::Succeeded) publish(attempt, outputs, event);
  AppendFile(attempt / "events.jsonl").append(to_line(event));
  return event;
}

}  // namespace dlflow::test
