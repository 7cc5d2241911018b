#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/configure.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/schedule.h"

// fake-slurm: what a test does to the world. README.md beside this file is its manual.
namespace dlflow::fake_slurm {
namespace {

using Arguments = std::vector<std::string>;

Error usage(const std::string& text) { return {Errc::InvalidInput, text + "; see README.md"}; }

/// The clock goes to each next event until `until`; scripts that start run meanwhile.
void move_on(Call& call, std::optional<Seconds> until) {
  World& world = call.world();
  schedule(world);
  call.act();
  for (auto next = next_event(world, until.has_value()); next && (!until || *next <= *until);
       next = next_event(world, until.has_value())) {
    world.now = *next;
    schedule(world);
    call.act();
  }
  if (!until) return;
  world.now = std::max(world.now, *until);
  schedule(world);
  call.act();
}

int advance_clock(Call& call, const Arguments& words) {
  if (words.size() != 1) throw usage("fake-slurm advance SECONDS");
  const Seconds by = std::atoll(words[0].c_str());
  const Seconds until = call.world().now + by;
  call.state().clock_offset += by;
  move_on(call, until);
  return 0;
}

/// Tasks that `end` ends need not be running: a pending one runs for no time.
int end_jobs(Call& call, const Arguments& words) {
  if (words.size() < 2) throw usage("fake-slurm end JOB[_TASK] STATE [EXIT[:SIGNAL]]");
  const auto state = state_of(words[1]);
  if (!state || !is_final(*state)) throw usage("'" + words[1] + "' is no final state");
  int exit_code = *state == State::Failed ? 1 : 0;
  int exit_signal = *state == State::OutOfMemory ? 125 : 0;  // as sacct shows it
  if (words.size() > 2) {
    exit_code = std::atoi(words[2].c_str());
    const size_t colon = words[2].find(':');
    if (colon != std::string::npos) exit_signal = std::atoi(words[2].c_str() + colon + 1);
  }
  World& world = call.world();
  for (const Found& found : find(world, words[0])) {
    if (is_final(found.task->state)) continue;
    const bool lost = *state == State::NodeFail || *state == State::Preempted;
    if (lost && found.job->request.requeue && found.task->state == State::Running) {
      requeue(world, found, name(*state));
    } else if (*state == State::Cancelled) {
      cancel(world, found, user_id(user_name()));
    } else {
      if (found.task->started == 0) found.task->started = world.now;
      if (found.task->shares.empty()) found.task->shares = place(world, found.job->request, true);
      end(world, found, *state, exit_code, exit_signal, true);
    }
  }
  move_on(call, world.now);
  return 0;
}

int add_outcome(Call& call, const Arguments& words) {
  if (words.size() < 3) throw usage("fake-slurm outcome NAME_GLOB SECONDS STATE [EXIT]");
  const auto state = state_of(words[2]);
  if (!state || !is_final(*state)) throw usage("'" + words[2] + "' is no final state");
  const int otherwise = *state == State::Failed ? 1 : 0;
  const int exit_code = words.size() > 3 ? std::atoi(words[3].c_str()) : otherwise;
  auto& outcomes = call.world().outcomes;
  outcomes.insert(outcomes.begin(), {words[0], std::atoll(words[1].c_str()), *state, exit_code});
  return 0;
}

/// fault COMMAND MOMENT EFFECT [COUNT]
int add_fault(Call& call, const Arguments& words) {
  if (words.size() == 1 && words[0] == "clear") {
    call.state().faults.clear();
    call.state().down_until = 0;
    return 0;
  }
  if (words.size() < 3) throw usage("fake-slurm fault COMMAND MOMENT EFFECT [COUNT]");
  Fault fault{words[0], words[1], words[2]};
  if (words.size() > 3) fault.count = words[3] == "always" ? -1 : std::atoi(words[3].c_str());
  if (fault.moment.starts_with("late:")) {
    const bool calls = fault.moment.ends_with("calls");
    const int value = std::atoi(fault.moment.c_str() + 5);
    if (calls) {
      fault.late_calls = value;
    } else {
      fault.late = value;
    }
    fault.moment = "late";
  }
  if (fault.moment == "before-accept") fault.moment = "before";
  if (fault.moment == "after-accept") fault.moment = "after";
  for (const char* moment : {"before", "after", "late", "output"}) {
    if (fault.moment == moment) {
      call.state().faults.push_back(fault);
      return 0;
    }
  }
  throw usage("'" + words[1] + "' is no moment: before, after, late:SECONDS, late:Ncalls, output");
}

int set_mode(Call& call, const Arguments& words) {
  const std::string mode = join(words, " ");
  Stored& state = call.state();
  if (mode == "outcomes") {
    state.mode = Mode::Outcomes;
  } else if (mode == "run") {
    state.mode = Mode::Waiting;
  } else if (mode == "run background") {
    state.mode = Mode::Background;
    state.clock_offset = call.world().now - real_time();
    if (call.world().jobs.empty()) state.clock_offset = 0;
  } else {
    throw usage("'" + mode + "' is no mode: outcomes, run, run background");
  }
  return 0;
}

int show_jobs(Call& call) {
  Json jobs = Json::array();
  for (const Job& job : call.world().jobs) {
    Json json = to_json(job);
    for (size_t i = 0; i < job.tasks.size(); ++i) {
      json["tasks"][i]["shown"] = shown_state(call.world(), job.tasks[i]);
      json["tasks"][i]["dependency"] = to_text(job.tasks[i].dependencies);
    }
    jobs.push_back(std::move(json));
  }
  call.out = jobs.dump() + "\n";
  return 0;
}

int take_down(Call& call, const Arguments& words) {
  if (words.size() != 1) throw usage("fake-slurm down SECONDS");
  call.state().down_until = call.world().now + std::atoll(words[0].c_str());
  return 0;
}

/// For the end of a test: kills what still runs.
int stop(Call& call) {
  World& world = call.world();
  for (Job& job : world.jobs) {
    for (Task& task : job.tasks) cancel(world, {&job, &task}, -1);
  }
  for (Effect& effect : world.effects) effect = {Effect::Kind::Signal, effect.job, effect.index, 9};
  return 0;
}

int apply_settings(Call& call, const Arguments& words) {
  for (const std::string& word : words) configure(call.world(), word);
  return 0;
}

}  // namespace

int control(Call& call) {
  const std::string verb = call.argv().size() > 1 ? call.argv()[1] : "";
  const Arguments words(call.argv().begin() + std::min<ptrdiff_t>(2, std::ssize(call.argv())),
                        call.argv().end());
  World& world = call.world();
  try {
    if (verb == "advance") return advance_clock(call, words);
    if (verb == "end") return end_jobs(call, words);
    if (verb == "outcome") return add_outcome(call, words);
    if (verb == "fault") return add_fault(call, words);
    if (verb == "mode") return set_mode(call, words);
    if (verb == "down") return take_down(call, words);
    if (verb == "jobs") return show_jobs(call);
    if (verb == "stop") return stop(call);
    if (verb == "set") return apply_settings(call, words);
    if (verb == "version" && words.size() == 1)
      return apply_settings(call, {"version=" + words[0]});
    if (verb == "settle") {
      move_on(call, std::nullopt);
      return 0;
    }
    if (verb == "purge") {
      schedule(world);
      purge(world);
      move_on(call, world.now);
      return 0;
    }
    if (verb == "now") {
      call.out = std::to_string(world.now) + "\n";
      return 0;
    }
  } catch (const Refused& refused) {
    return call.fail(refused.text);
  }
  throw usage("'" + verb + "' is no verb of fake-slurm");
}

}  // namespace dlflow::fake_slurm
