#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "base/json.h"
#include "base/process.h"
#include "engine/model/workflow.h"

namespace dlflow {

/// A program that tells, and what it is called in the log.
struct Channel {
  std::string name;
  Command command;
  std::string input;
};

/// The command of `notify:`, which reads the news and finds it in its environment.
Channel own_program(const Notifications& notify, const Json& news,
                    const std::filesystem::path& run_directory);

/// Throws Error{NotFound} on a machine that cannot send mail.
Channel mail_to(const std::string& address, const Json& news,
                const std::filesystem::path& run_directory);

/// Sends the file `record`. The address is in no command line, which others can see. It has no
/// quotes (is_web_address). \param secret  its name
Channel webhook_at(const std::string& address, const std::string& secret,
                   const std::filesystem::path& record);

/// "told: …" or "warning: …"
std::string tell_through(const Channel& channel, std::chrono::milliseconds limit);

}  // namespace dlflow
