#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// Which variables of others a job gets, and who gives them. Nothing else, so that the same job
/// does not differ from one shell or back end to the next: so it has no language and no time zone.
/// The list is in docs/user/format/environment.md.
namespace dlflow {

using Variables = std::map<std::string, std::string>;

enum class Provider {
  Plan,  ///< the shell in which the run was planned; RUN/environment has the values
  Job,   ///< the node that the job is on, at its start
};

/// Who gives the variable `name` to jobs: by the list, or because `further` (`inherit:` of the
/// profile: X, X_* or *_X) names it; nothing if nobody does.
std::optional<Provider> provider_of(std::string_view name,
                                    const std::vector<std::string>& further = {});

bool is_inherited(std::string_view name, const std::vector<std::string>& further = {});

/// Those of this process that `provider` gives to a job with `further`.
Variables variables_from(Provider provider, const std::vector<std::string>& further);

/// Those of `variables` that a job has because of `further` alone.
Variables added_by(const Variables& variables, const std::vector<std::string>& further);

/// Those of `variables` that `patterns` name.
Variables named_by(const Variables& variables, const std::vector<std::string>& patterns);

/// The names of those of `variables` that are to be treated as secrets: by their names
/// (HF_TOKEN, AWS_SECRET_ACCESS_KEY), if check_secret() accepts their values.
std::set<std::string> secrets_among(const Variables& variables);

/// RUN/environment, which only its user may read: what the plan gives. Nothing if an older dlflow
/// made the run.
void write_variables(const std::filesystem::path& run_directory, const Variables& variables);
std::optional<Variables> read_variables(const std::filesystem::path& run_directory);

}  // namespace dlflow
