#include <strings.h>

#include <algorithm>

#include "base/text.h"
#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/schedule.h"
#include "tests/support/fake_slurm/scontrol_show.h"

namespace dlflow::fake_slurm {
namespace {

using Arguments = std::vector<std::string>;

bool same(const std::string& a, const std::string& b) {
  return ::strcasecmp(a.c_str(), b.c_str()) == 0;
}

/// Job=5, JobId=5_3, 5: the id.
std::string id_of(const std::string& word) {
  const size_t equals = word.find('=');
  return equals == word.npos ? word : word.substr(equals + 1);
}

/// Whether `parent`, or what it waits for, waits for `job`: as slurmctld, ten jobs deep.
bool waits_for(World& world, JobId parent, JobId job, int depth = 10) {
  if (parent == job) return true;
  const Job* found = depth > 0 ? find_job(world, parent) : nullptr;
  if (found == nullptr) return false;
  const auto& dependencies = found->tasks.front().dependencies;
  return std::any_of(dependencies.begin(), dependencies.end(), [&](const Dependency& d) {
    return d.job != 0 && waits_for(world, d.job, job, depth - 1);
  });
}

void set_dependency(World& world, Found found, const std::string& text) {
  if (found.task->state != State::Pending) throw Refused{"Job is no longer pending execution"};
  auto dependencies = resolve(world, text);
  for (const Dependency& d : dependencies) {
    if (d.job == found.job->id) throw Refused{"Job dependency problem"};
    if (d.job != 0 && waits_for(world, d.job, found.job->id))
      throw Refused{"Circular job dependency"};
  }
  found.task->dependencies = std::move(dependencies);
}

void set_time_limit(const World& world, Found found, const std::string& text) {
  const auto minutes = parse_minutes(text);
  if (!minutes) throw Refused{"Invalid time specified"};
  const int limit = limit_minutes(world, found.job->request);
  const bool more = *minutes == 0 || *minutes > limit;
  if (limit != 0 && more) throw Refused{"Access/permission denied"};  // that needs an operator
  found.job->request.minutes = *minutes;
}

void update_one(World& world, Found found, const std::string& key, const std::string& value) {
  if (is_final(found.task->state) && !same(key, "comment"))
    throw Refused{"Job has already finished"};
  Request& request = found.job->request;
  if (same(key, "dependency")) {
    set_dependency(world, found, value);
  } else if (same(key, "timelimit")) {
    set_time_limit(world, found, value);
  } else if (same(key, "starttime")) {
    found.task->begin = parse_time(value, world.now).value_or(0);
  } else if (same(key, "partition")) {
    if (find_partition(world.config, value) == nullptr) {
      throw Refused{"Invalid partition name specified"};
    }
    request.partition = value;
  } else if (same(key, "minmemorynode")) {
    if (found.task->state != State::Pending) throw Refused{"Job is no longer pending execution"};
    request.memory_mb = std::atoi(value.c_str());
  } else if (same(key, "priority")) {
    found.task->held = value == "0";
  } else if (same(key, "comment")) {
    request.comment = value;
  } else if (same(key, "jobname") || same(key, "name")) {
    request.name = value;
  } else if (same(key, "arraytaskthrottle")) {
    request.throttle = std::atoi(value.c_str());
  } else if (same(key, "requeue")) {
    request.requeue = value == "1";
  } else if (same(key, "account")) {
    request.account = value;
  } else if (same(key, "qos")) {
    request.qos = value;
  }
}

/// Does `action` to each task that `id` means; mistakes as scontrol prints them: "TEXT for job 5",
/// and for what is an array "5_3: TEXT".
template <typename Action>
int for_job(Call& call, const std::string& id, const Action& action) {
  try {
    const auto all = find(call.world(), id);
    if (all.empty()) throw Refused{"Invalid job id specified"};
    int status = 0;
    for (const Found& found : all) {
      if (id.find('_') != id.npos) split_off(call.world(), found);
      try {
        action(found);
      } catch (const Refused& refused) {
        if (!found.job->is_array()) throw;
        call.err += std::to_string(found.job->id) + "_" + std::to_string(found.task->index) + ": " +
                    refused.text + "\n";
        status = 1;
      }
    }
    return status;
  } catch (const Refused& refused) {
    call.err += refused.text + " for job " + id + "\n";
    return 1;
  }
}

int update(Call& call, const Arguments& words) {
  std::string ids;
  std::vector<std::pair<std::string, std::string>> changes;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == word.npos) {
      call.err = "Invalid input: " + word + "\nRequest aborted\n";
      return 1;
    }
    const std::string key = word.substr(0, equals);
    if (same(key, "job") || same(key, "jobid")) {
      ids = word.substr(equals + 1);
    } else {
      changes.emplace_back(key, word.substr(equals + 1));
    }
  }
  if (changes.empty()) {
    call.err = "No changes specified\n";
    return 1;
  }
  if (ids.empty()) return call.fail("No job ID specified");
  int status = 0;
  for (const std::string& id : split(ids, ',')) {
    status |= for_job(call, id, [&](Found found) {
      for (const auto& [key, value] : changes) update_one(call.world(), found, key, value);
    });
  }
  return status;
}

int hold(Call& call, const Arguments& words, bool held) {
  int status = 0;
  for (const std::string& word : words) {
    status |= for_job(call, id_of(word), [&](Found found) {
      if (found.task->state != State::Pending) throw Refused{"Job is no longer pending execution"};
      found.task->held = held;
    });
  }
  return status;
}

int requeue_all(Call& call, const Arguments& words, bool held) {
  int status = 0;
  for (const std::string& word : words) {
    for (const std::string& id : split(id_of(word), ',')) {
      status |= for_job(call, id, [&](Found found) {
        requeue(call.world(), found, "REQUEUED");
        found.task->held = held;
      });
    }
  }
  return status;
}

int ping(Call& call) {
  std::string state = "UP";
  try {
    call.request();
    call.reply();
  } catch (const Unreachable&) {
    state = "DOWN";
  }
  call.out = "Slurmctld(primary) at " + call.world().config.cluster + "-ctl is " + state + "\n";
  return state == "UP" ? 0 : 1;
}

int change(Call& call, const std::string& verb, const Arguments& words) {
  const std::string id = words.empty() ? "" : id_of(words.front());
  try {
    call.request();
    int status = 0;
    if (verb == "update") status = update(call, words);
    if (verb == "hold" || verb == "uhold") status = hold(call, words, true);
    if (verb == "release") status = hold(call, words, false);
    if (verb == "requeue") status = requeue_all(call, words, false);
    if (verb == "requeuehold") status = requeue_all(call, words, true);
    look_again(call.world());
    call.reply();
    return status;
  } catch (const Unreachable& error) {
    call.err = error.text + " for job " + id + "\n";
    return 1;
  }
}

}  // namespace

int scontrol(Call& call) {
  bool one_line = false;
  Arguments words;
  for (size_t i = 1; i < call.argv().size(); ++i) {
    const std::string& word = call.argv()[i];
    if (word == "-V" || word == "--version") {
      call.out = version_text(call.world().config.version) + "\n";
      return 0;
    }
    const bool option = word.starts_with('-');
    one_line = one_line || word == "-o" || word == "--oneliner";
    if (!option) words.push_back(word);
  }
  if (words.empty()) return 0;
  const std::string verb = words.front();
  words.erase(words.begin());
  if (verb == "ping") return ping(call);
  if (verb == "show") return show(call, words, one_line);
  for (const char* known : {"update", "hold", "uhold", "release", "requeue", "requeuehold"}) {
    if (verb == known) return change(call, verb, words);
  }
  call.err = "invalid keyword: " + verb + "\n";
  return 1;
}

}  // namespace dlflow::fake_slurm
