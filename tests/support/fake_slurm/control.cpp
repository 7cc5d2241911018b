#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/schedule.h"
#include "tests/support/fake_slurm/world_json.h"

// fake-slurm: a test's control over the world. README.md beside this file is its manual.
namespace dlflow::fake_slurm {
namespace {

using Arguments = std::vector<std::string>;

Error usage(const std::string& text) { return {Errc::InvalidInput, text + "; see README.md"}; }

void advance_clock(Call& call, const Arguments& words) {
  if (words.size() != 1) throw usage("fake-slurm advance SECONDS");
  const Seconds by = std::atoll(words[0].c_str());
  call.state().clock_offset += by;
  advance(call.world(), by);
}

/// Also ends pending tasks, which then have run for no time.
void end_jobs(Call& call, const Arguments& words) {
  if (words.size() != 2) throw usage("fake-slurm end JOB[_TASK] STATE");
  const auto state = state_of(words[1]);
  if (!state || !is_final(*state)) throw usage("'" + words[1] + "' is no final state");
  World& world = call.world();
  for (const Found& found : find(world, words[0])) {
    if (is_final(found.task->state)) continue;
    if (*state == State::Cancelled) {
      cancel(world, found, int(::getuid()));
      continue;
    }
    if (found.task->started == 0) found.task->started = world.now;
    if (found.task->shares.empty()) found.task->shares = place(world, found.job->request, true);
    const int signal = *state == State::OutOfMemory ? 125 : 0;  // as sacct shows it
    end(world, found, *state, *state == State::Failed ? 1 : 0, signal, true);
  }
  schedule(world);
}

/// fault COMMAND MOMENT EFFECT [COUNT]
void add_fault(Call& call, const Arguments& words) {
  if (words.size() == 1 && words[0] == "clear") return call.state().faults.clear();
  if (words.size() < 3) throw usage("fake-slurm fault COMMAND MOMENT EFFECT [COUNT]");
  Fault fault{words[0], words[1], words[2]};
  if (words.size() > 3) fault.count = words[3] == "always" ? -1 : std::atoi(words[3].c_str());
  if (fault.moment.starts_with("late:")) {
    fault.late_calls = std::atoi(fault.moment.c_str() + 5);
    fault.moment = "late";
  }
  for (const char* moment : {"before", "after", "late", "output"}) {
    if (fault.moment == moment) return call.state().faults.push_back(fault);
  }
  throw usage("'" + words[1] + "' is no moment: before, after, late:N, output");
}

void set_mode(Call& call, const Arguments& words) {
  const std::string mode = join(words, " ");
  Stored& state = call.state();
  state.background = mode == "background";
  if (!state.background && mode != "outcomes") {
    throw usage("'" + mode + "' is no mode: outcomes, background");
  }
  if (!state.background) return;
  state.clock_offset = call.world().jobs.empty() ? 0 : call.world().now - real_time();
}

void show_jobs(Call& call) { call.out = Json(call.world().jobs).dump() + "\n"; }

/// Kills what still runs at the end of a test.
void stop(Call& call) {
  World& world = call.world();
  for (Job& job : world.jobs) {
    for (Task& task : job.tasks) cancel(world, {&job, &task}, -1);
  }
  for (Effect& effect : world.effects) effect = {Effect::Kind::Signal, effect.job, effect.index, 9};
}

/// KEY=VALUE
void configure(Config& config, const std::string& setting) {
  const size_t equals = std::min(setting.find('='), setting.size() - 1);
  const std::string key = setting.substr(0, equals);
  const std::string value = setting.substr(equals + 1);
  const std::pair<const char*, int*> numbers[] = {{"nodes", &config.nodes},
                                                  {"cpus", &config.cpus},
                                                  {"max_array_size", &config.max_array_size},
                                                  {"max_submit", &config.max_submit},
                                                  {"requeue_delay", &config.requeue_delay}};
  for (const auto& [name, field] : numbers) {
    if (key == name) return void(*field = std::atoi(value.c_str()));
  }
  if (key == "accounts") {
    config.accounts = value;
  } else if (key == "accounting") {
    config.accounting = value == "on";
  } else if (key == "cluster") {
    config.cluster = value;
  } else {
    throw usage("'" + setting + "' is no setting of fake-slurm");
  }
}

}  // namespace

int control(Call& call) {
  const std::string verb = call.argv().size() > 1 ? call.argv()[1] : "";
  const Arguments words(call.argv().begin() + std::min<ptrdiff_t>(2, std::ssize(call.argv())),
                        call.argv().end());
  try {
    if (verb == "advance") {
      advance_clock(call, words);
    } else if (verb == "end") {
      end_jobs(call, words);
    } else if (verb == "fault") {
      add_fault(call, words);
    } else if (verb == "mode") {
      set_mode(call, words);
    } else if (verb == "jobs") {
      show_jobs(call);
    } else if (verb == "stop") {
      stop(call);
    } else if (verb == "set") {
      for (const std::string& word : words) configure(call.world().config, word);
    } else if (verb == "purge") {
      schedule(call.world());
      purge(call.world());
      schedule(call.world());
    } else {
      throw usage("'" + verb + "' is no verb of fake-slurm");
    }
    return 0;
  } catch (const Refused& refused) {
    return call.fail(refused.text);
  }
}

}  // namespace dlflow::fake_slurm
