#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/options.h"

namespace dlflow::fake_slurm {
namespace {

std::string or_null(const std::string& text) { return text.empty() ? "(null)" : text; }

Seconds run_time(const World& world, const Task& task) {
  if (task.state == State::Pending) return 0;
  return (task.ended != 0 ? task.ended : world.now) - task.started;
}

std::string end_time(const Job& job, const Task& task) {
  const int limit = limit_minutes(job.request);
  if (task.state == State::Pending) return "N/A";
  if (task.ended != 0) return date(task.ended);
  return limit == 0 ? "NONE" : date(task.started + limit * 60);
}

std::string field(char letter, const World& world, const Record& record) {
  const Task& task = record.front();
  const int limit = limit_minutes(record.job->request);
  switch (letter) {
    case 'i':
      return record.id();
    case 'T':
      return name(task.state);
    case 'M':
      return stop_watch(run_time(world, task));
    case 'l':
      return limit == 0 ? "UNLIMITED" : stop_watch(limit * 60);
    case 'S':
      return task.started == 0 ? "N/A" : date(task.started);
    case 'e':
      return end_time(*record.job, task);
    case 'N':
      return host_list(task.shares);
    case 'E':
      return or_null(to_text(task.dependencies));
    case 'r':
      return task.reason;
    case 'V':
      return date(task.submitted);
    case 'j':
      return record.job->request.name;
    default:
      return "";
  }
}

}  // namespace

int squeue(Call& call) {
  const auto words =
      parse_words(call.argv(), {"me", "noheader", "array", "states", "format"}, call.err);
  if (!words) return 1;
  try {
    call.request();
    call.reply();
  } catch (const Unreachable& error) {
    call.err += "slurm_load_jobs error: " + error.text + "\n";
    return 1;
  }
  const std::string* format = words->find("format");
  if (format == nullptr) return 0;
  for (const Job& job : call.world().jobs) {
    for (const Task& task : job.tasks) {
      if (task.purged || (is_final(task.state) && !words->has("states"))) continue;
      const Record record{&job, {&task}, false};
      call.out += fill(*format, [&](char letter) { return field(letter, call.world(), record); });
    }
  }
  return 0;
}

}  // namespace dlflow::fake_slurm
