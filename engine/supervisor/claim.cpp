#include "engine/supervisor/claim.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>

#include "base/error.h"
#include "base/parse_json.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "claim-";

fs::path claim_file(const fs::path& attempt_directory, int pass) {
  return attempt_directory / (std::string(kPrefix) + std::to_string(pass));
}

/// The pass that a file claims, or 0.
int claimed_pass(const std::string& name) {
  if (!name.starts_with(kPrefix)) return 0;
  int pass = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, pass);
  return error == std::errc() && stop == end ? pass : 0;
}

}  // namespace

bool claim_pass(const fs::path& attempt_directory, int pass, const std::string& backend_id,
                uint64_t token) {
  const auto self = identify(::getpid());
  DLFLOW_CHECK(self.has_value());
  const fs::path file = claim_file(attempt_directory, pass);
  Json json = to_json(*self);
  if (!backend_id.empty()) json["backend_id"] = backend_id;
  if (token != 0) json["token"] = token;
  const std::string owner = json.dump();
  if (::symlink(owner.c_str(), file.c_str()) == 0) return true;
  if (errno != EEXIST) throw_errno("cannot create " + file.string(), errno);
  // A network file system may repeat a request whose answer was lost, and refuse the second.
  return fs::read_symlink(file) == owner;
}

std::optional<Claim> newest_claim(const fs::path& attempt_directory) {
  Claim claim;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(attempt_directory, error)) {
    claim.pass = std::max(claim.pass, claimed_pass(entry.path().filename().string()));
  }
  if (claim.pass == 0) return std::nullopt;
  const fs::path file = claim_file(attempt_directory, claim.pass);
  const Json json = parse_json(fs::read_symlink(file).native());
  if (json.is_discarded()) throw Error(Errc::Corrupt, file.string() + " is damaged");
  claim.supervisor = process_identity_from_json(json);
  claim.backend_id = json.value("backend_id", "");
  claim.token = json.value("token", uint64_t{0});
  return claim;
}

}  // namespace dlflow
