#include "engine/run/notify/notify.h"

#include <stdlib.h>

#include <thread>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/secret_file.h"
#include "engine/plan/notifications.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/run/detached.h"
#include "engine/run/notify/channels.h"
#include "engine/supervisor/redact.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Event = Notifications::Event;

constexpr const char* kAddressVariable = "DLFLOW_NOTIFY_ADDRESS";

/// The name of the record, the same for all that find the same news. If several jobs fail, one is
/// told, and one more after `resubmit`.
std::string record_name(const News& news) {
  return std::string(name(news.event)) + "-" + std::to_string(news.number);
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
      threads.emplace_back([&, i] { told[i] = tell_through(channels[i], limit); });
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
      return news.run + ": " + news.job + " is not requeued again: " + news.reason;
  }
  DLFLOW_CHECK(false);
}

std::optional<News> news_of(const Notifications& notify, const std::string& run,
                            const JobEvent& end, bool may_fail) {
  if (!end.state || !is_failure(*end.state) || may_fail) return std::nullopt;
  News news{
      .run = run, .state = *end.state, .job = end.job, .reason = end.reason, .number = end.attempt};
  // A job that asks to be run again ends for good only in this way (ending.cpp).
  const bool asked_again = end.exit == kExitAgain;
  news.event =
      asked_again && notify.on.contains(Event::NoProgress) ? Event::NoProgress : Event::Failure;
  if (!notify.on.contains(news.event)) return std::nullopt;
  return news;
}

Json to_json(const News& news) {
  const bool of_run = news.event == Event::End && news.state != JobState::Succeeded;
  return {{"text", message(news)}, {"event", name(news.event)},
          {"run", news.run},       {"state", name(of_run ? JobState::Failed : news.state)},
          {"job", news.job},       {"reason", news.reason}};
}

std::optional<fs::path> claim_news(const fs::path& run_directory, const Notifications& notify,
                                   const News& news) {
  if (!notify.on.contains(news.event)) return std::nullopt;
  const fs::path folder = run_directory / "notified";
  const fs::path record = folder / (record_name(news) + ".json");
  if (fs::exists(record)) return std::nullopt;
  if (!create_once(record, to_json(news).dump() + "\n")) return std::nullopt;
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
    return "";  // tell() reports that
  }
}

void tell_aside(const fs::path& run_directory, const News& news) {
  try {
    const auto notify = read_notifications(run_directory);
    if (!notify) return;
    const auto record = claim_news(run_directory, *notify, news);
    if (!record) return;
    Command command{
        .argv = {frozen_program(run_directory).string(), "notify-exec", record->string()},
        .environment = current_environment(),
        .standard_output = "/dev/null",
        .standard_error = "/dev/null"};
    const std::string address = webhook_address(run_directory, *notify);
    if (!address.empty())
      command.environment.push_back(std::string(kAddressVariable) + "=" + address);
    start_detached(command);
  } catch (const std::exception&) {
    // The run continues even if nobody is told.
  }
}

int notify_exec(const fs::path& record) {
  const std::string address = environment_variable(kAddressVariable);
  ::unsetenv(kAddressVariable);
  tell(record, address);
  return 0;
}

bool waits_to_be_told(const fs::path& run_directory) {
  const auto notify = read_notifications(run_directory);
  if (!notify || notify->webhook.empty() || !notify->on.contains(Notifications::Event::End))
    return false;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run_directory / "notified", none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("end-") && name.ends_with(".log")) return false;
  }
  return true;
}

}  // namespace dlflow
