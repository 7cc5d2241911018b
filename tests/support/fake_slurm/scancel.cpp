#include <getopt.h>

#include <csignal>

#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/options.h"
#include "tests/support/fake_slurm/sbatch_options.h"
#include "tests/support/fake_slurm/schedule.h"

namespace dlflow::fake_slurm {
namespace {

struct Versioned {
  Option option;
  int since;
};

constexpr Versioned kOptions[] = {
    {{"account", 'A', required_argument}, 0}, {{"batch", 'b', no_argument}, 0},
    {{"full", 'f', no_argument}, 0},          {{"hurry", 'H', no_argument}, 0},
    {{"jobname", 0, required_argument}, 0},   {{"me", 0, no_argument}, 2205},
    {{"name", 'n', required_argument}, 0},    {{"partition", 'p', required_argument}, 0},
    {{"quiet", 'Q', no_argument}, 0},         {{"signal", 's', required_argument}, 0},
    {{"state", 't', required_argument}, 0},   {{"user", 'u', required_argument}, 0},
    {{"verbose", 'v', no_argument}, 0},       {{"version", 'V', no_argument}, 0}};

/// What else a job must be to be cancelled.
struct Filter {
  std::string name, user, partition, account, state;
  bool any() const { return !(name + user + partition + account + state).empty(); }
};

Filter filter_of(const Words& words) {
  Filter filter;
  for (const auto& [option, value] : words.options) {
    if (option == "name" || option == "jobname") filter.name = value;
    if (option == "user") filter.user = value;
    if (option == "me") filter.user = user_name();
    if (option == "partition") filter.partition = value;
    if (option == "account") filter.account = value;
    if (option == "state") filter.state = value;
  }
  return filter;
}

bool passes(const Filter& filter, const Found& found) {
  const auto same = [](const std::string& wanted, const std::string& is) {
    return wanted.empty() || wanted == is;
  };
  const Request& request = found.job->request;
  const std::string state = name(found.task->state);
  return !is_final(found.task->state) && same(filter.name, request.name) &&
         same(filter.user, request.user) && same(filter.partition, request.partition) &&
         same(filter.account, request.account) &&
         (same(filter.state, state) || same(filter.state, short_state(state)));
}

struct Signal {
  int number = 0;  ///< 0: end the job
  bool batch = false;
};

void strike(World& world, Found found, const Signal& signal) {
  if (signal.number == 0 || signal.number == SIGKILL) {
    cancel(world, found, user_id(user_name()));
  } else if (found.task->state == State::Running) {
    send_signal(world, found, signal.number, signal.batch);
  }
}

/// Without filters each id goes to slurmctld as it is, and a job that is over or unknown is no
/// mistake; with filters or a signal, scancel looks at the queue first and says what it misses.
int cancel_by_id(Call& call, const Words& words, const Filter& filter, const Signal& signal) {
  const bool looks = filter.any() || signal.number != 0 || words.has("batch");
  int status = 0;
  for (const std::string& id : words.rest) {
    bool any_left = false;
    try {
      for (const Found& found : find(call.world(), id)) {
        any_left = any_left || !is_final(found.task->state);
        if (passes(filter, found)) strike(call.world(), found, signal);
      }
    } catch (const Refused&) {
      return call.fail("Invalid job id " + id);
    }
    if (any_left || (!looks && !words.has("verbose"))) continue;
    call.fail("Kill job error on job id " + id + ": Invalid job id specified");
    if (looks) status = 1;
  }
  return status;
}

void cancel_by_filter(World& world, const Filter& filter, const Signal& signal) {
  for (Job& job : world.jobs) {
    for (Task& task : job.tasks) {
      const Found found{&job, &task};
      if (!task.purged && passes(filter, found)) strike(world, found, signal);
    }
  }
}

}  // namespace

int scancel(Call& call) {
  std::vector<Option> options;
  for (const Versioned& known : kOptions) {
    if (call.world().config.version >= known.since) options.push_back(known.option);
  }
  const auto words = parse_words(call.argv(), options);
  if (!words) {
    call.err = "Try \"scancel --help\" for more information\n";
    return 1;
  }
  if (words->has("version")) {
    call.out = version_text(call.world().config.version) + "\n";
    return 0;
  }
  const Filter filter = filter_of(*words);
  if (words->rest.empty() && !filter.any()) return call.fail("No job identification provided");
  Signal signal{0, words->has("batch") || words->has("full")};
  if (const std::string* word = words->find("signal")) {
    signal.number = signal_number(*word);
    if (signal.number == 0) return call.fail("Unknown job signal: " + *word);
  }
  try {
    call.request();
    int status = 0;
    if (words->rest.empty()) cancel_by_filter(call.world(), filter, signal);
    if (!words->rest.empty()) status = cancel_by_id(call, *words, filter, signal);
    look_again(call.world());
    call.reply();
    return status;
  } catch (const Unreachable& error) {
    call.err.clear();
    if (words->rest.empty() || filter.any()) {
      call.err = "slurm_load_jobs error: " + error.text + "\n";
      return 1;
    }
    return call.fail("Kill job error on job id " + words->rest.front() + ": " + error.text);
  }
}

}  // namespace dlflow::fake_slurm
