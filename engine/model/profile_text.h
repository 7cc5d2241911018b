#pragma once

#include <string>

#include "engine/model/profile.h"

/// Writes a profile as YAML.
namespace dlflow {

/// Every key with its value, as YAML, for `dlflow profile show`. Reading the text gives the same
/// profile.
std::string profile_as_yaml(const Profile& profile);

/// `text` as a YAML value: plain if every reader takes that for a string, otherwise quoted.
std::string yaml_text(const std::string& text);

/// "8000MiB", "240GiB", "1000": a size as profiles write it.
std::string yaml_size(uint64_t bytes);

/// "2d", "4h", "90m", "45s"; "0" for none.
std::string yaml_duration(std::chrono::seconds duration);

}  // namespace dlflow
