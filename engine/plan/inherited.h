#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// The variables that a job inherits, and their providers. A job inherits nothing else, so that it
/// does not differ between shells or back ends; it has no language and no time zone, for example.
/// The list is in docs/user/format/environment.md.
namespace dlflow {

using Variables = std::map<std::string, std::string>;

enum class Provider {
  Plan,  ///< the shell in which the run was planned; RUN/environment has the values
  Job,   ///< the job's node, when the job starts
};

/// The provider of the variable `name`, if it is in the list or `further` (`inherit:` of the
/// profile: X, X_* or *_X) names it; nothing if jobs do not inherit it.
std::optional<Provider> provider_of(std::string_view name,
                                    const std::vector<std::string>& further = {});

bool is_inherited(std::string_view name, const std::vector<std::string>& further = {});

/// The variables of this process that `provider` gives to a job with `further`.
Variables variables_from(Provider provider, const std::vector<std::string>& further);

/// The entries of `variables` that a job has only because of `further`.
Variables added_by(const Variables& variables, const std::vector<std::string>& further);

/// The entries of `variables` that match `patterns`.
Variables named_by(const Variables& variables, const std::vector<std::string>& patterns);

/// The names in `variables` that look like secrets (HF_TOKEN, AWS_SECRET_ACCESS_KEY), if
/// check_secret() accepts their values.
std::set<std::string> secrets_among(const Variables& variables);

/// RUN/environment: the variables that the plan provides. Only its user may read it. Reading
/// returns nothing if an older dlflow made the run.
void write_variables(const std::filesystem::path& run_directory, const Variables& variables);
std::optional<Variables> read_variables(const std::filesystem::path& run_directory);

}  // namespace dlflow
