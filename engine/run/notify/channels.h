#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "base/json.h"
#include "base/process.h"
#include "engine/model/workflow.h"

namespace dlflow {

/// A program that tells the news, and its name in the log.
struct Channel {
  std::string name;
  Command command;
  std::string input;
};

/// The command of `notify:`. It reads the news, which is also in its environment.
Channel own_program(const Notifications& notify, const Json& news,
                    const std::filesystem::path& run_directory);

/// Throws Error{NotFound} on a machine that cannot send mail.
Channel mail_to(const std::string& address, const Json& news,
                const std::filesystem::path& run_directory);

/// Sends the file `record`. The address is in no command line, since others can see those. It has
/// no quotes (is_web_address). \param secret  its name
Channel webhook_at(const std::string& address, const std::string& secret,
                   const std::filesystem::path& record);

/// "told: …" or "warning: …"
std::string tell_through(const Channel& channel, std::chrono::milliseconds limit);

/// `text`, one line of UTF-8, in the form of a header: ASCII unchanged, otherwise short encoded
/// words of RFC 2047, separated by `between`.
std::string in_header(const std::string& text, const std::string& between = " ");

/// A mail in UTF-8 for `sendmail`. \param subject  one line
std::string mail_text(const std::string& address, const std::string& subject,
                      const std::string& body);

}  // namespace dlflow
