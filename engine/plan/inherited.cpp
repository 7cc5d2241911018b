#include "engine/plan/inherited.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "base/process.h"
#include "base/sha256.h"

namespace dlflow {
namespace {

const std::vector<std::string>& always_inherited() {
  static const std::vector<std::string> patterns = {
      // programs, libraries, folders
      "PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR",
      "SCRATCH", "WORK", "HF_HOME", "XDG_RUNTIME_DIR", "TERM",
      // environment modules, for setup lines
      "MODULEPATH", "MODULESHOME", "LOADEDMODULES", "_LMFILES_", "LMOD_*", "BASH_FUNC_*",
      // network
      "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY",
      "ALL_PROXY", "NO_PROXY", "SSL_CERT_*", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
      // keys and remotes of other machines
      "SSH_AUTH_SOCK", "RSYNC_RSH", "GIT_SSH_COMMAND", "RCLONE_CONFIG", "KRB5CCNAME",
      // devices, launchers, interconnects
      "*_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "SLURM_*", "SGE_*",
      "PE_HOSTFILE", "JOB_ID", "NSLOTS", "ARC", "PMIX_*", "OMPI_MCA_*", "I_MPI_*", "UCX_*",
      "NCCL_*"};
  return patterns;
}

bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return name == pattern;
}

bool is_named(std::string_view name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](const std::string& pattern) { return matches(name, pattern); });
}

/// What the C library reads of the environment of every program.
constexpr std::array kReadByAll = {"LANG",     "LANGUAGE",    "LC_ALL",      "LC_COLLATE",
                                   "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC",
                                   "LC_TIME",  "TZ"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

bool is_inherited(std::string_view name, const std::vector<std::string>& further) {
  return is_named(name, always_inherited()) || is_named(name, further);
}

std::set<std::string> added_readings(std::string_view text,
                                     const std::vector<std::string>& further) {
  std::set<std::string> names;
  for (const char* name : kReadByAll) {
    if (is_named(name, further)) names.emplace(name);
  }
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = begin;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string_view name = text.substr(begin, end - begin);
    if (is_named(name, further) && !is_named(name, always_inherited())) names.emplace(name);
  }
  return names;
}

std::map<std::string, std::string> variables_of(const std::vector<std::string>& patterns) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : current_environment()) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals != std::string::npos && is_named(name, patterns)) {
      variables.emplace(name, entry.substr(equals + 1));
    }
  }
  return variables;
}

std::string identity_of_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return sha256_hex(value == nullptr ? "" : value);
}

std::map<std::string, std::string> inherited_variables(const std::vector<std::string>& further) {
  auto variables = variables_of(always_inherited());
  variables.merge(variables_of(further));
  return variables;
}

}  // namespace dlflow
