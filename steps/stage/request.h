#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "steps/transfer/address.h"
#include "steps/transfer/limits.h"
#include "steps/transfer/remote_file.h"

/// The step's `with:` as values.
namespace dlflow::steps {

enum class Unpack { None, Gzip, Zip, Tar };

/// As `unpack:` spells it.
std::string name(Unpack unpack);

/// The name of `file` once it is unpacked: without the ending that unpacking takes away.
std::string unpacked_name(std::string file, Unpack unpack);

/// Where the list of a source's files and their hashes is; see manifest.h.
struct ManifestSource {
  std::filesystem::path file;  ///< frozen with the run; empty: it is at `url`
  std::string url;
  std::string sha256;

  bool is_given() const { return !file.empty() || !url.empty(); }
};

struct Source {
  Address address;
  std::string sha256;  ///< of what the address holds, before unpacking; empty if not declared
  std::string commit;  ///< Git: which one
  Unpack unpack = Unpack::None;
  std::string
      name;  ///< below the folder `data`; empty: the files of a pattern lie there themselves
  ManifestSource manifest = {};
  RemoteFile listed = {};  ///< what a listing told, once there was one

  /// The text that pins the content: the declared hash or the commit; empty if nothing does.
  const std::string& pin() const { return commit.empty() ? sha256 : commit; }
  std::string display() const { return address.display(); }
};

struct Request {
  std::vector<Source> sources;
  TransferLimits limits;
};

/// Reads `with:`. Throws Error{InvalidInput} naming the source and what is wrong with it.
Request parse_request(const Json& with);

}  // namespace dlflow::steps
