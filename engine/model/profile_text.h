#pragma once

#include <string>

#include "engine/model/profile.h"

/// A profile as the text of a profile.
namespace dlflow {

/// Every key with its value, as YAML: what `dlflow profile show` prints. Read again, it is the same
/// profile.
std::string profile_as_yaml(const Profile& profile);

/// `text` as a YAML value: plain where that is a string for every reader, else in double quotes.
std::string yaml_text(const std::string& text);

/// "8000MiB", "240GiB", "1000": bytes as a profile has them.
std::string yaml_size(uint64_t bytes);

/// "2d", "4h", "90m", "45s"; "0" for none.
std::string yaml_duration(std::chrono::seconds duration);

}  // namespace dlflow
