#include "engine/plan/inherited.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/secret_file.h"
#include "base/text.h"
#include "engine/model/schedulers.h"

namespace dlflow {
namespace {

struct VariableRow {
  std::string_view pattern;
  Provider provider;
};

constexpr Provider kByPlan = Provider::Plan;
constexpr Provider kByJob = Provider::Job;

/// The table of all inherited variables, without those of batch systems.
constexpr std::array kVariables = {
    // programs, libraries, folders
    VariableRow{"PATH", kByPlan}, VariableRow{"LD_LIBRARY_PATH", kByPlan},
    VariableRow{"VIRTUAL_ENV", kByPlan}, VariableRow{"HOME", kByPlan}, VariableRow{"USER", kByPlan},
    VariableRow{"LOGNAME", kByPlan}, VariableRow{"SHELL", kByPlan}, VariableRow{"TMPDIR", kByJob},
    VariableRow{"SCRATCH", kByPlan}, VariableRow{"WORK", kByPlan}, VariableRow{"HF_HOME", kByPlan},
    VariableRow{"XDG_RUNTIME_DIR", kByJob}, VariableRow{"TERM", kByPlan},
    // environment modules, for setup lines
    VariableRow{"MODULEPATH", kByPlan}, VariableRow{"MODULESHOME", kByPlan},
    VariableRow{"LOADEDMODULES", kByPlan}, VariableRow{"_LMFILES_", kByPlan},
    VariableRow{"LMOD_*", kByPlan}, VariableRow{"BASH_FUNC_*", kByPlan},
    // network
    VariableRow{"http_proxy", kByPlan}, VariableRow{"https_proxy", kByPlan},
    VariableRow{"all_proxy", kByPlan}, VariableRow{"no_proxy", kByPlan},
    VariableRow{"HTTP_PROXY", kByPlan}, VariableRow{"HTTPS_PROXY", kByPlan},
    VariableRow{"ALL_PROXY", kByPlan}, VariableRow{"NO_PROXY", kByPlan},
    VariableRow{"SSL_CERT_*", kByPlan}, VariableRow{"CURL_CA_BUNDLE", kByPlan},
    VariableRow{"REQUESTS_CA_BUNDLE", kByPlan},
    // keys and remote shells
    VariableRow{"SSH_AUTH_SOCK", kByJob}, VariableRow{"RSYNC_RSH", kByPlan},
    VariableRow{"GIT_SSH_COMMAND", kByPlan}, VariableRow{"RCLONE_CONFIG", kByPlan},
    VariableRow{"KRB5CCNAME", kByJob},
    // devices, launchers, interconnects
    VariableRow{"*_VISIBLE_DEVICES", kByJob}, VariableRow{"GPU_DEVICE_ORDINAL", kByJob},
    VariableRow{"ZE_AFFINITY_MASK", kByJob}, VariableRow{"PMIX_*", kByJob},
    VariableRow{"OMPI_MCA_*", kByPlan}, VariableRow{"I_MPI_*", kByPlan},
    VariableRow{"UCX_*", kByPlan}, VariableRow{"NCCL_*", kByPlan}};

bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return name == pattern;
}

bool is_named(std::string_view name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns,
                             [name](const std::string& pattern) { return matches(name, pattern); });
}

bool sounds_secret(std::string name) {
  constexpr std::array<std::string_view, 8> kParts = {
      "TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "API_KEY", "ACCESS_KEY", "CREDENTIAL"};
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return std::ranges::any_of(kParts,
                             [&](std::string_view part) { return name.find(part) != name.npos; });
}

bool may_be_secret(const std::string& name, const std::string& value) {
  try {
    check_secret(name, value, name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::filesystem::path variables_file(const std::filesystem::path& run_directory) {
  return run_directory / "environment";
}

/// Parses "NAME=value" entries.
Variables variables_in(const std::vector<std::string>& entries) {
  Variables variables;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) {
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return variables;
}

}  // namespace

std::optional<Provider> provider_of(std::string_view name,
                                    const std::vector<std::string>& further) {
  for (const VariableRow& row : kVariables) {
    const char first = row.pattern.front();
    if (first != '*' && !name.starts_with(first)) continue;  // saves most comparisons
    if (matches(name, row.pattern)) return row.provider;
  }
  for (const auto& [system, section] : batch_sections()) {
    if (is_named(name, section.job_variables)) return kByJob;
  }
  return is_named(name, further) ? std::optional(kByPlan) : std::nullopt;
}

bool is_inherited(std::string_view name, const std::vector<std::string>& further) {
  return provider_of(name, further).has_value();
}

Variables variables_from(Provider provider, const std::vector<std::string>& further) {
  std::vector<std::string> entries = current_environment();
  std::erase_if(entries, [&](std::string_view entry) {
    return provider_of(entry.substr(0, entry.find('=')), further) != provider;
  });
  return variables_in(entries);
}

Variables added_by(const Variables& variables, const std::vector<std::string>& further) {
  Variables added = named_by(variables, further);
  std::erase_if(added, [](const auto& variable) { return is_inherited(variable.first); });
  return added;
}

Variables named_by(const Variables& variables, const std::vector<std::string>& patterns) {
  Variables named;
  std::ranges::copy_if(variables, std::inserter(named, named.end()),
                       [&](const auto& variable) { return is_named(variable.first, patterns); });
  return named;
}

std::set<std::string> secrets_among(const Variables& variables) {
  std::set<std::string> names;
  for (const auto& [name, value] : variables) {
    if (sounds_secret(name) && may_be_secret(name, value)) names.insert(name);
  }
  return names;
}

void write_variables(const std::filesystem::path& run_directory, const Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) text += name + "=" + value + '\0';
  write_file_atomic(variables_file(run_directory), text, Durability::Synced);
}

std::optional<Variables> read_variables(const std::filesystem::path& run_directory) {
  const auto text = read_file_if_exists(variables_file(run_directory));
  return text ? std::optional(variables_in(split(*text, '\0'))) : std::nullopt;
}

}  // namespace dlflow
