#include "engine/run/notify.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/secret_file.h"
#include "base/text.h"
#include "engine/plan/extension.h"
#include "engine/plan/notifications.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/run/detached.h"
#include "engine/run/jobs.h"
#include "engine/run/mail_text.h"
#include "engine/supervisor/redact.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Event = Notifications::Event;

constexpr const char* kAddressVariable = "DLFLOW_NOTIFY_ADDRESS";

/// The name of the record, the same for whoever finds the same news. Of several jobs that fail one
/// is told, and after `resubmit` one more.
std::string record_name(const News& news) {
  return std::string(name(news.event)) + "-" + std::to_string(news.number);
}

Json to_json(const News& news) {
  const bool of_run = news.event == Event::End && news.state != JobState::Succeeded;
  return {{"text", message(news)}, {"event", name(news.event)},
          {"run", news.run},       {"state", name(of_run ? JobState::Failed : news.state)},
          {"job", news.job},       {"reason", news.reason}};
}

/// What one job has left, by the record of the engine and of its newest attempt.
struct OnRecord {
  JobState state = JobState::Planned;
  int attempt = 0;
  bool has_begun = false;  ///< the attempt has a folder
  std::string reason = {};
};

/// The last state of each job in RUN/events.jsonl.
std::map<std::string, JobEvent> engine_states(const fs::path& run_directory) {
  std::map<std::string, JobEvent> last;
  for (JobEvent& event : EventTail(engine_events_file(run_directory)).read()) {
    if (event.state) last[event.job] = std::move(event);
  }
  return last;
}

OnRecord on_record(const Plan& plan, uint32_t job, const std::map<std::string, JobEvent>& engine) {
  const fs::path directory = job_directory(plan, job);
  const std::string& name = plan.jobs[job].name;
  OnRecord found;
  const auto decided = engine.find(name);
  if (decided != engine.end()) {
    found = {.state = *decided->second.state,
             .attempt = decided->second.attempt,
             .reason = decided->second.reason};
  }
  const std::vector<int> numbers = attempts(directory);
  if (numbers.empty() || numbers.back() < found.attempt) return found;
  if (found.state == JobState::Planned && found.attempt == numbers.back()) return found;
  found.attempt = numbers.back();
  found.has_begun = true;
  const auto last = last_state(directory, name, numbers.back());
  if (!last) return found;
  if (is_final(*last->state) || !is_final(found.state)) found.state = *last->state;
  found.reason = last->reason;
  return found;
}

/// The last state of one job in RUN/events.jsonl; of its lines alone are read as JSON.
std::optional<JobEvent> engine_state(const fs::path& run_directory, const std::string& job) {
  const std::string quoted = Json(job).dump();
  std::optional<JobEvent> last;
  const auto text = read_file_if_exists(engine_events_file(run_directory));
  for (const std::string& line : split(text.value_or(""), '\n')) {
    if (line.find(quoted) == std::string::npos) continue;
    const Json json = parse_json(line);
    if (!json.is_object()) continue;  // torn
    JobEvent event = job_event_from_json(json);
    if (event.job == job && event.state) last = std::move(event);
  }
  return last;
}

/// Whether a parent on record keeps `job` from running; and whether all of them have ended.
struct ParentsOnRecord {
  bool hopeless = false;
  bool ended = true;
};

ParentsOnRecord look_at_parents(const Plan& plan, uint32_t job,
                                const std::vector<JobProgress>& known) {
  const auto step_of = [&plan](uint32_t of) -> const Step& {
    return plan.workflow.steps[plan.jobs[of].step];
  };
  ParentsOnRecord parents;
  plan.graph.each_parent(job, [&](uint32_t parent) {
    const JobState state = known[parent].state;
    parents.ended &= is_final(state);
    parents.hopeless |= is_broken(state) && !lets_run(step_of(job), step_of(parent), state);
  });
  return parents;
}

constexpr size_t kFewParents = 8;

size_t num_parents(const Plan& plan, uint32_t job) {
  size_t count = 0;
  for (const JobRange& range : plan.graph.parents(job)) count += range.count;
  return count;
}

/// A program that tells, and what it is called in the log.
struct Channel {
  std::string name;
  Command command;
  std::string input;
};

Command command_of(std::vector<std::string> argv, const fs::path& run_directory) {
  Command command;
  command.argv = std::move(argv);
  command.environment = current_environment();
  command.directory = run_directory;
  return command;
}

Channel own_program(const Notifications& notify, const Json& news, const fs::path& run_directory) {
  Channel channel{notify.command.front(), command_of(notify.command, run_directory), news.dump()};
  const auto add = [&](const std::string& variable, const std::string& value) {
    std::erase_if(channel.command.environment,
                  [&](const std::string& entry) { return entry.starts_with(variable + "="); });
    channel.command.environment.push_back(variable + "=" + value);
  };
  for (const char* key : {"event", "run", "state", "job", "reason"}) {
    add(environment_name("DLFLOW_", key), news.at(key).get<std::string>());
  }
  add("DLFLOW_MESSAGE", news.at("text").get<std::string>());
  add("DLFLOW_RUN_DIRECTORY", run_directory.string());
  return channel;
}

/// What a program said may be in a header, so without what begins another line.
std::string first_line(const std::string& text) {
  constexpr size_t kMost = 200;
  const std::string line(trim(text));
  return escaped(line.substr(0, std::min(line.find('\n'), kMost)));
}

std::string path_of_this_process() {
  const char* path = ::getenv("PATH");
  return path == nullptr ? "" : path;
}

/// Throws Error{NotFound} on a machine that cannot send mail.
Channel mail_to(const std::string& address, const Json& news, const fs::path& run_directory) {
  const std::string text = news.at("text").get<std::string>();
  const std::string subject = "dlflow: " + first_line(text);
  const std::string body = text + "\n\nThe run is in " + run_directory.string() +
                           "; `dlflow status " + news.at("run").get<std::string>() +
                           "` tells more.\n";
  Channel channel{"mail to " + address, {}, body};
  const std::string path = path_of_this_process() + ":/usr/sbin:/usr/lib";
  for (const char* program : {"mail", "mailx"}) {
    const auto found = find_program(program, path);
    if (!found) continue;
    channel.command = command_of({found->string(), "-s", subject, address}, run_directory);
    return channel;
  }
  const auto sendmail = find_program("sendmail", path);
  if (!sendmail) {
    throw Error(Errc::NotFound, "there is neither mail nor mailx nor sendmail on " + host_name());
  }
  channel.command = command_of({sendmail->string(), "-i", address}, run_directory);
  channel.input = mail_text(address, subject, body);
  return channel;
}

/// The address is in no command line, which others can see. It has no quotes (is_web_address).
Channel webhook_at(const std::string& address, const std::string& secret, const fs::path& record) {
  if (address.empty()) {
    throw Error(Errc::NotFound, "the secret " + secret + " is not in the run's folder any more");
  }
  Channel channel{"webhook " + secret, {}, {}};
  channel.command = command_of(
      {"curl", "--silent", "--show-error", "--fail", "--proto", "=http,https", "--config", "-"},
      record.parent_path());
  channel.input = "url = \"" + address +
                  "\"\nheader = \"Content-Type: application/json\"\noutput = \"/dev/null\"\n"
                  "data-binary = \"@" +
                  record.filename().string() + "\"\n";
  return channel;
}

/// "told: …" or "warning: …"
std::string tell_one(const Channel& channel, std::chrono::milliseconds limit) {
  try {
    const Output output =
        run(channel.command, {.input = channel.input, .time_limit = limit, .collect_errors = true});
    if (output.timed_out) {
      return "warning: " + channel.name + ": no end within " +
             std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) +
             " s; it was killed";
    }
    if (output.status.code == 0) return "told: " + channel.name;
    const std::string said = first_line(output.errors);
    return "warning: " + channel.name + ": exit " + std::to_string(output.status.code) +
           (said.empty() ? "" : ": " + said);
  } catch (const std::exception& error) {
    return "warning: " + channel.name + ": " + error.what();
  }
}

std::vector<std::string> tell_all(const fs::path& record, const std::string& address,
                                  std::chrono::milliseconds limit) {
  const fs::path run_directory = record.parent_path().parent_path();
  const auto notify = read_notifications(run_directory);
  if (!notify) return {};
  const Json news = parse_json_or_throw(read_file(record), record.string());
  std::vector<std::string> lines;
  std::vector<Channel> channels;
  const auto add = [&](const std::string& what, const auto& make) {
    try {
      channels.push_back(make());
    } catch (const std::exception& error) {
      lines.push_back("warning: " + what + ": " + error.what());
    }
  };
  if (!notify->command.empty()) {
    add(notify->command.front(), [&] { return own_program(*notify, news, run_directory); });
  }
  for (const std::string& to : notify->mail) {
    add("mail to " + to, [&] { return mail_to(to, news, run_directory); });
  }
  if (!notify->webhook.empty()) {
    add("webhook " + notify->webhook, [&] { return webhook_at(address, notify->webhook, record); });
  }
  std::vector<std::string> told(channels.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < channels.size(); ++i) {
      threads.emplace_back([&, i] { told[i] = tell_one(channels[i], limit); });
    }
  }
  lines.insert(lines.end(), told.begin(), told.end());
  return lines;
}

}  // namespace

std::string message(const News& news) {
  const std::string failure = news.job.empty()
                                  ? ""
                                  : news.job + " " + std::string(name(news.state)) +
                                        (news.reason.empty() ? "" : ", " + news.reason);
  switch (news.event) {
    case Event::End:
      if (news.state == JobState::Succeeded) return news.run + " succeeded";
      return news.run + " failed" + (failure.empty() ? "" : ": " + failure);
    case Event::Failure:
      return news.run + ": " + failure;
    case Event::NoProgress:
      return news.run + ": " + news.job + " is not requeued again, " + news.reason;
  }
  DLFLOW_CHECK(false);
}

std::optional<News> news_of(const Notifications& notify, const std::string& run,
                            const JobEvent& end, bool may_fail) {
  if (!end.state || !is_failure(*end.state) || may_fail) return std::nullopt;
  News news{
      .run = run, .state = *end.state, .job = end.job, .reason = end.reason, .number = end.attempt};
  // Nothing else ends a job for good that asks to be run again (ending.cpp).
  const bool asked_again = end.exit == kExitAgain;
  news.event =
      asked_again && notify.on.contains(Event::NoProgress) ? Event::NoProgress : Event::Failure;
  if (!notify.on.contains(news.event)) return std::nullopt;
  return news;
}

/// First from the last job to the first, until one shows that the run goes on: what is left of a
/// run mostly stands at its end, so that few files are read as long as much is left. A job with
/// many parents is passed over there, since they come later and say it.
std::optional<News> end_on_record(const Plan& plan) {
  const std::map<std::string, JobEvent> engine = engine_states(plan.directory);
  std::vector<JobProgress> known(plan.jobs.size());
  std::vector<OnRecord> records(plan.jobs.size());
  std::vector<bool> was_read(plan.jobs.size(), false);
  const auto read = [&](uint32_t job) {
    if (was_read[job]) return;
    was_read[job] = true;
    records[job] = on_record(plan, job, engine);
    known[job].state = records[job].state;
    known[job].attempt = records[job].attempt;
  };
  for (uint32_t job = uint32_t(plan.jobs.size()); job-- > 0;) {
    read(job);
    if (is_final(known[job].state)) continue;
    if (known[job].attempt > 0 && records[job].has_begun) return std::nullopt;
    if (num_parents(plan, job) > kFewParents) continue;
    plan.graph.each_parent(job, read);
    const ParentsOnRecord parents = look_at_parents(plan, job, known);
    if (parents.ended && !parents.hopeless) return std::nullopt;
  }
  News news{.event = Event::End, .run = plan.run};
  for (uint32_t job = 0; job < known.size(); ++job) {  // parents first
    if (!is_final(known[job].state)) {
      if (!look_at_parents(plan, job, known).hopeless) return std::nullopt;
      known[job].state = JobState::Blocked;
    }
    news.number += known[job].attempt;
    const bool failed =
        is_failure(known[job].state) && !plan.workflow.steps[plan.jobs[job].step].allow_failure;
    if (failed && news.job.empty()) {
      news.job = plan.jobs[job].name;
      news.state = known[job].state;
      news.reason = records[job].reason;
    }
  }
  const RunState state = Jobs(plan, std::move(known)).run_state();
  if (state != RunState::Succeeded && state != RunState::Failed) return std::nullopt;
  if (state == RunState::Failed && news.job.empty()) news.state = JobState::Failed;
  return news;
}

bool is_at_work(const fs::path& run_directory, const std::string& job) {
  const fs::path directory = job_directory(run_directory, job);
  const std::vector<int> numbers = attempts(directory);
  if (numbers.empty()) return false;
  const auto last = last_state(directory, job, numbers.back());
  if (!last || is_final(*last->state)) return false;
  // That an attempt vanished, or was given up, only the engine has written.
  const auto decided = engine_state(run_directory, job);
  if (!decided || decided->attempt < numbers.back()) return true;
  return !is_final(*decided->state) && decided->state != JobState::Planned;
}

std::optional<fs::path> claim_news(const fs::path& run_directory, const Notifications& notify,
                                   const News& news) {
  if (!notify.on.contains(news.event)) return std::nullopt;
  const fs::path folder = run_directory / "notified";
  const fs::path record = folder / (record_name(news) + ".json");
  if (fs::exists(record)) return std::nullopt;
  make_directories(folder);
  const fs::path draft = folder / ("." + process_name() + ".draft");
  write_file_atomic(draft, to_json(news).dump() + "\n", Durability::Synced);
  const bool made = ::link(draft.c_str(), record.c_str()) == 0;
  const int problem = errno;
  ::unlink(draft.c_str());
  if (!made && problem != EEXIST) throw_errno("cannot create " + record.string(), problem);
  if (!made) return std::nullopt;
  sync_directory(folder);
  return record;
}

std::vector<std::string> tell(const fs::path& record, const std::string& address,
                              std::chrono::milliseconds limit) {
  std::vector<std::string> lines;
  try {
    lines = tell_all(record, address, limit);
  } catch (const std::exception& error) {
    lines.push_back(std::string("warning: ") + error.what());
  }
  Secrets secrets;
  if (!address.empty()) secrets.emplace("webhook", address);
  const Redactor redactor(secrets);
  std::string log;
  for (std::string& line : lines) log += (line = redactor.text(line)) + "\n";
  try {
    write_file_atomic(fs::path(record).replace_extension(".log"), log);
  } catch (const std::exception& error) {
    lines.push_back(std::string("warning: ") + error.what());
  }
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("warning"); });
  return lines;
}

std::string webhook_address(const fs::path& run_directory, const Notifications& notify) {
  if (notify.webhook.empty()) return "";
  try {
    return read_secrets(secrets_file(run_directory), {notify.webhook}).at(notify.webhook);
  } catch (const std::exception&) {
    return "";  // which tell() says
  }
}

void tell_aside(const fs::path& run_directory, const News& news) {
  try {
    const auto notify = read_notifications(run_directory);
    if (!notify) return;
    const auto record = claim_news(run_directory, *notify, news);
    if (!record) return;
    Command command;
    command.argv = {frozen_program(run_directory).string(), "notify-exec", record->string()};
    command.environment = current_environment();
    const std::string address = webhook_address(run_directory, *notify);
    if (!address.empty())
      command.environment.push_back(std::string(kAddressVariable) + "=" + address);
    command.standard_output = "/dev/null";
    command.standard_error = "/dev/null";
    start_detached(command);
  } catch (const std::exception&) {
    // The run goes on, whoever hears of it.
  }
}

int notify_exec(const fs::path& record) {
  const char* set = ::getenv(kAddressVariable);
  const std::string address = set == nullptr ? "" : set;
  ::unsetenv(kAddressVariable);
  tell(record, address);
  return 0;
}

bool waits_to_be_told(const fs::path& run_directory) {
  const auto notify = read_notifications(run_directory);
  if (!notify || notify->webhook.empty() || !notify->on.contains(Event::End)) return false;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run_directory / "notified", none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("end-") && name.ends_with(".log")) return false;
  }
  return true;
}

}  // namespace dlflow
