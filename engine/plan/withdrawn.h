#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

/// RUN/withdrawn: attempts that are not to begin any more, whatever a scheduler does with their
/// jobs. `dlflow cancel` wanted their end, and may not have been obeyed; or another attempt takes
/// their place. A job looks here before it starts its program. Only
/// for whoever holds the run's RunLock to write.
namespace dlflow {

struct WithdrawnAttempt {
  std::string job;
  int attempt = 1;
  bool operator==(const WithdrawnAttempt&) const = default;
};

/// Adds `attempts`; on disk when it returns.
void withdraw(const std::filesystem::path& run_directory,
              std::span<const WithdrawnAttempt> attempts);

/// Takes `attempts` off the list: they may begin after all. Those not on it do no harm.
void want_again(const std::filesystem::path& run_directory,
                std::span<const WithdrawnAttempt> attempts);

bool has_withdrawn(const std::filesystem::path& run_directory);

bool is_withdrawn(const std::filesystem::path& run_directory, std::string_view job, int attempt);

}  // namespace dlflow
