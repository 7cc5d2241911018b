#include <unistd.h>

#include <csignal>

#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/options.h"
#include "tests/support/fake_slurm/schedule.h"

namespace dlflow::fake_slurm {
namespace {

/// Without a signal each id goes to slurmctld unchanged, and an ended or unknown job is not an
/// error; with one, scancel queries the queue first and reports missing jobs.
int cancel_by_id(Call& call, const Words& words) {
  const std::string* name = words.find("jobname");
  const bool looks = words.has("signal");
  int status = 0;
  for (const std::string& id : words.rest) {
    bool any_left = false;
    try {
      for (const Found& found : find(call.world(), id)) {
        any_left = any_left || !is_final(found.task->state);
        if (!looks) {
          cancel(call.world(), found, int(::getuid()));
        } else if (found.task->state == State::Running && *name == found.job->request.name) {
          send_signal(call.world(), found, SIGINT);
        }
      }
    } catch (const Refused&) {
      return call.fail("Invalid job id " + id);
    }
    if (any_left || !looks) continue;
    status = call.fail("Kill job error on job id " + id + ": Invalid job id specified");
  }
  return status;
}

}  // namespace

/// scancel ID…, or scancel --batch --signal=INT --state=RUNNING --jobname=NAME ID.
int scancel(Call& call) {
  const auto words = parse_words(call.argv(), {"batch", "signal", "state", "jobname"}, call.err);
  if (!words) return 1;
  if (words->rest.empty()) return call.fail("No job identification provided");
  if (words->has("signal") && (!words->has("jobname") || *words->find("signal") != "INT")) {
    return call.fail("Not modelled: see README.md");
  }
  try {
    call.request();
    const int status = cancel_by_id(call, *words);
    look_again(call.world());
    call.reply();
    return status;
  } catch (const Unreachable& error) {
    call.err.clear();
    return call.fail("Kill job error on job id " + words->rest.front() + ": " + error.text);
  }
}

}  // namespace dlflow::fake_slurm
