#include "engine/supervisor/claim.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parse_json.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "claim-";

/// The pass that a file claims, or 0.
int claimed_pass(const std::string& name) {
  if (!name.starts_with(kPrefix)) return 0;
  return number_from<int>(std::string_view(name).substr(kPrefix.size())).value_or(0);
}

constexpr size_t kBootDigits = 12;

/// A boot has 48 random bits at the end of its id; the process's start time is compared besides.
std::string short_boot_id(const std::string& boot_id) {
  return boot_id.substr(boot_id.size() - std::min(boot_id.size(), kBootDigits));
}

/// This process, determined once.
const ProcessIdentity& self() {
  static ProcessIdentity identity;
  if (identity.pid == ::getpid())
    return identity;  // otherwise this is a fork of the process that read it
  const auto found = identify(::getpid());
  DLFLOW_CHECK(found.has_value());
  return identity = *found;
}

/// "25561 4023811 51 f295b4e3637d n17 812_3": process, its start, token, boot, host, backend id.
std::string to_text(const Claim& claim) {
  const ProcessIdentity& owner = claim.supervisor;
  std::string text = std::to_string(owner.pid) + " " + std::to_string(owner.start_ticks) + " " +
                     std::to_string(claim.token) + " " + short_boot_id(owner.boot_id) + " " +
                     owner.host;
  if (!claim.backend_id.empty()) text += " " + claim.backend_id;
  return text;
}

/// Nothing if it is no claim's text.
std::optional<Claim> claim_from_text(int pass, const std::string& text) {
  const std::vector<std::string> words = split(text, ' ');
  if (words.size() != 5 && words.size() != 6) return std::nullopt;
  Claim claim;
  claim.pass = pass;
  ProcessIdentity& owner = claim.supervisor;
  const auto pid = number_from<decltype(owner.pid)>(words[0]);
  const auto start = number_from<decltype(owner.start_ticks)>(words[1]);
  const auto token = number_from<decltype(claim.token)>(words[2]);
  if (!pid || !start || !token) return std::nullopt;
  owner.pid = *pid;
  owner.start_ticks = *start;
  claim.token = *token;
  const bool is_this_boot = words[3] == short_boot_id(self().boot_id);
  owner.boot_id = is_this_boot ? self().boot_id : words[3];
  owner.host = words[4];
  if (words.size() == 6) claim.backend_id = words[5];
  return claim;
}

Claim claim_from_json(int pass, const Json& json) {
  return {.pass = pass,
          .supervisor = process_identity_from_json(json),
          .token = json.value("token", uint64_t{0}),
          .backend_id = json.value("backend_id", "")};
}

}  // namespace

fs::path claim_file(const fs::path& attempt_directory, int pass) {
  return attempt_directory / (std::string(kPrefix) + std::to_string(pass));
}

bool claim_pass(const fs::path& attempt_directory, int pass, const std::string& backend_id,
                uint64_t token) {
  const fs::path file = claim_file(attempt_directory, pass);
  const std::string owner =
      to_text({.pass = pass, .supervisor = self(), .token = token, .backend_id = backend_id});
  if (::symlink(owner.c_str(), file.c_str()) == 0) return true;
  if (errno != EEXIST) throw_errno("cannot create " + file.string(), errno);
  // A network file system may repeat a request whose answer was lost, and then refuse the second
  // one.
  return fs::read_symlink(file) == owner;
}

void renew_claim(const fs::path& attempt_directory, int pass) {
  ::utimensat(AT_FDCWD, claim_file(attempt_directory, pass).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

std::optional<Time> last_renewal(const fs::path& attempt_directory, int pass) {
  struct stat claim {};
  if (::lstat(claim_file(attempt_directory, pass).c_str(), &claim) != 0) return std::nullopt;
  return Time(std::chrono::seconds(claim.st_mtim.tv_sec));
}

std::optional<Claim> newest_claim(const fs::path& attempt_directory) {
  int pass = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(attempt_directory, error)) {
    pass = std::max(pass, claimed_pass(entry.path().filename().string()));
  }
  if (pass == 0) return std::nullopt;
  const fs::path file = claim_file(attempt_directory, pass);
  const std::string text = fs::read_symlink(file).native();
  if (auto claim = claim_from_text(pass, text)) return claim;
  const Json json = parse_json(text);
  if (json.is_discarded()) throw Error(Errc::Corrupt, file.string() + " is damaged");
  return claim_from_json(pass, json);
}

}  // namespace dlflow
