#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "steps/transfer/address.h"
#include "steps/transfer/limits.h"
#include "steps/transfer/listed_names.h"

/// The step's `with:` as values.
namespace dlflow::steps {

enum class Unpack { None, Gzip, Zip, Tar };

/// The spelling in `unpack:`.
std::string name(Unpack unpack);

/// The name of `file` after unpacking: without the extension that unpacking removes.
std::string unpacked_name(std::string file, Unpack unpack);

/// The place of a source's manifest; see manifest.h.
struct ManifestSource {
  std::filesystem::path file;  ///< frozen with the run; empty: it is at `url`
  std::string url;
  std::string sha256;

  bool is_given() const { return !file.empty() || !url.empty(); }
};

struct Source {
  Address address;
  std::string sha256;  ///< of the address's content before unpacking; empty if not declared
  std::string commit;  ///< only for Git
  Unpack unpack = Unpack::None;
  std::string name;  ///< below the folder `data`; empty: the files of a pattern go directly there
  ManifestSource manifest = {};
  RemoteFile listed = {};  ///< from a listing, once there was one

  /// The declared hash or commit, which pins the content; empty if there is none.
  const std::string& pin() const { return commit.empty() ? sha256 : commit; }
  std::string display() const { return address.display(); }
};

struct Request {
  std::vector<Source> sources;
  TransferLimits limits;
};

/// Parses `with:`. Throws Error{InvalidInput} naming the source and its mistake.
Request parse_request(const Json& with);

}  // namespace dlflow::steps
