#include "engine/run/notify/channels.h"

#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/http_request.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

Command command_of(std::vector<std::string> argv, const fs::path& run_directory) {
  return {
      .argv = std::move(argv), .environment = current_environment(), .directory = run_directory};
}

void set_variable(Command& command, const std::string& variable, const std::string& value) {
  std::erase_if(command.environment,
                [&](const std::string& entry) { return entry.starts_with(variable + "="); });
  command.environment.push_back(variable + "=" + value);
}

/// The first line of a program's output, without line breaks, since it may go into a header.
std::string first_line(const std::string& text) {
  constexpr size_t kMost = 200;
  const std::string line(trim(text));
  return escaped(line.substr(0, std::min(line.find('\n'), kMost)));
}

/// Whether `program` is the `mail` of GNU Mailutils: in others -a attaches a file.
bool is_of_mailutils(const std::string& program, const fs::path& run_directory) {
  constexpr std::chrono::seconds kLimit{5};
  const Output output = run(command_of({program, "--version"}, run_directory),
                            {.time_limit = kLimit, .collect_errors = true});
  return output.text.find("Mailutils") != std::string::npos;
}

/// `mail` of GNU Mailutils sends bytes unchanged and declares no encoding. Heirloom's and similar
/// ones use the locale's.
Command mail_program(const std::string& program, const std::string& subject,
                     const std::string& address, const fs::path& run_directory) {
  std::vector<std::string> argv = {program, "-s", in_header(subject)};
  if (is_of_mailutils(program, run_directory)) {
    for (const char* header : {"MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8",
                               "Content-Transfer-Encoding: 8bit"}) {
      argv.insert(argv.end(), {"-a", header});
    }
  }
  argv.push_back(address);
  Command command = command_of(std::move(argv), run_directory);
  set_variable(command, "LC_ALL", "C.UTF-8");
  return command;
}

/// One character of UTF-8 in the Q encoding of RFC 2047: "=C3=BC".
std::string q_encoded(std::string_view character) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  for (const char byte : character) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x80 && std::isalnum(value) != 0) {
      text += byte;
    } else {
      text += {'=', kDigits[size_t(value >> 4)], kDigits[size_t(value & 15)]};
    }
  }
  return text;
}

}  // namespace

Channel own_program(const Notifications& notify, const Json& news, const fs::path& run_directory) {
  Channel channel{notify.command.front(), command_of(notify.command, run_directory), news.dump()};
  const auto add = [&](const std::string& variable, const std::string& value) {
    set_variable(channel.command, variable, value);
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
                           "` shows more.\n";
  Channel channel{"mail to " + address, {}, body};
  const std::string path = environment_variable("PATH") + ":/usr/sbin:/usr/lib";
  if (const auto sendmail = find_program("sendmail", path)) {  // it takes all headers unchanged
    channel.command = command_of({sendmail->string(), "-i", address}, run_directory);
    channel.input = mail_text(address, subject, body);
    return channel;
  }
  for (const char* program : {"mail", "mailx"}) {
    const auto found = find_program(program, path);
    if (!found) continue;
    channel.command = mail_program(found->string(), subject, address, run_directory);
    return channel;
  }
  throw Error(Errc::NotFound, "there is neither sendmail nor mail nor mailx on " + host_name());
}

Channel webhook_at(const std::string& address, const std::string& secret, const fs::path& record) {
  if (address.empty()) {
    throw Error(Errc::NotFound, "the secret " + secret + " is not in the run's folder any more");
  }
  const HttpCall call = http_call({.url = address,
                                   .headers = {"Content-Type: application/json"},
                                   .options = {"--fail", "--output", "/dev/null", "--data-binary",
                                               "@" + record.filename().string()}});
  return {"webhook " + secret, command_of(call.argv, record.parent_path()), call.settings};
}

std::string tell_through(const Channel& channel, std::chrono::milliseconds limit) {
  try {
    const Output output =
        run(channel.command, {.input = channel.input, .time_limit = limit, .collect_errors = true});
    if (output.timed_out) {
      return "warning: " + channel.name + ": did not end within " +
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

std::string in_header(const std::string& text, const std::string& between) {
  // A line has at most 76 characters, with "Subject: " and the markers of a word.
  constexpr size_t kMostOfWord = 76 - 9 - 12;
  const auto is_ascii = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) return text;
  std::string words, word;
  const auto end_word = [&] {
    words += (words.empty() ? "" : between) + ("=?UTF-8?Q?" + std::exchange(word, "") + "?=");
  };
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const std::string character = q_encoded(std::string_view(text).substr(begin, end - begin));
    if (word.size() + character.size() > kMostOfWord) end_word();
    word += character;
    begin = end;
  }
  end_word();
  return words;
}

std::string mail_text(const std::string& address, const std::string& subject,
                      const std::string& body) {
  return "To: " + address + "\nSubject: " + in_header(subject, "\n ") +
         "\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8"
         "\nContent-Transfer-Encoding: 8bit\n\n" +
         body;
}

}  // namespace dlflow
