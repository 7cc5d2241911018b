#include "engine/backend/gone_host.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_identity.h"
#include "base/process.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The name becomes a file name, and a record may hold any text.
bool is_host_name(const std::string& name) {
  return !name.empty() && !name.starts_with('.') && name.find('/') == std::string::npos;
}

fs::path file_of(const fs::path& run_directory, const std::string& host) {
  return run_directory / "gone-hosts" / host;
}

}  // namespace

void declare_gone(const fs::path& run_directory, const std::string& host) {
  if (!is_host_name(host)) {
    throw Error(Errc::InvalidInput, "'" + host + "' is not the name of a host");
  }
  if (host == host_name()) {
    throw Error(Errc::InvalidInput, host + " is this machine, which is not gone");
  }
  const fs::path file = file_of(run_directory, host);
  make_directories(file.parent_path());
  write_file_atomic(file, "");  // its time decides which claims it covers
}

bool is_on_gone_host(const fs::path& run_directory, const fs::path& attempt_directory,
                     const Claim& claim) {
  const std::string& host = claim.supervisor.host;
  if (host == host_name() || !is_host_name(host)) return false;
  const fs::path file = file_of(run_directory, host);
  if (!fs::is_regular_file(file)) return false;
  const fs::path claimed = claim_file(attempt_directory, claim.pass);
  return identity_of_link(claimed).ctime_ns < identity_of(file).ctime_ns;
}

}  // namespace dlflow
