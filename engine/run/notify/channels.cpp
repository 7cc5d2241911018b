#include "engine/run/notify/channels.h"

#include <stdlib.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "engine/run/notify/mail_text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

Command command_of(std::vector<std::string> argv, const fs::path& run_directory) {
  Command command;
  command.argv = std::move(argv);
  command.environment = current_environment();
  command.directory = run_directory;
  return command;
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

}  // namespace

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

std::string tell_through(const Channel& channel, std::chrono::milliseconds limit) {
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

}  // namespace dlflow
