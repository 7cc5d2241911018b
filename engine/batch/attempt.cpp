#include "engine/batch/attempt.h"

#include <algorithm>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/process.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/lost_node.h"
#include "engine/supervisor/telling_line.h"

namespace dlflow {

Attempt::Attempt(JobSpec spec, int number)
    : spec_(std::move(spec)),
      number_(number),
      directory_(attempt_directory(spec_.job_directory, number)) {
  make_directories(directory_);
  const std::filesystem::path file = directory_ / "job.json";
  if (!std::filesystem::exists(file)) write_file_atomic(file, to_json(spec_).dump() + "\n");
  read();
}

bool Attempt::has_saved() const { return stopped_ && stopped_exit_ == kExitAgain; }

std::optional<std::string> Attempt::lost_node() const {
  if (!lost_node_.empty()) return lost_node_;
  if (!earlier_error_bytes_ || spec_.resources.ranks == 1) return std::nullopt;
  const AttemptFiles files{.attempt = directory_};
  return dlflow::lost_node(end_of_output(files.standard_error(), *earlier_error_bytes_));
}

void Attempt::read() {
  last_.reset();
  stopped_ = false;
  lost_node_.clear();
  earlier_error_bytes_.reset();
  for (JobEvent& event : EventTail(directory_ / "events.jsonl").read()) {
    failed_tries_ = std::max(failed_tries_, event.failed_tries);
    stopped_ = !event.state.has_value();
    if (stopped_) stopped_exit_ = event.exit;
    lost_node_ = stopped_ ? event.failed_node : "";
    earlier_error_bytes_ = event.earlier_error_bytes;
    if (event.walltime.count() > 0) walltime_ = event.walltime;
    if (event.state) last_ = std::move(event);
  }
}

void Attempt::record(JobEvent event, const Allocation& allocation) const {
  event.at = SystemClock().now();
  event.backend_id = allocation.id;
  event.node = host_name();
  AppendFile file(directory_ / "events.jsonl");
  file.append(to_line(event));
  file.sync();
}

}  // namespace dlflow
