#pragma once

#include <string>

#include "base/url.h"

/// Where files come from and go to, as a workflow writes it.
namespace dlflow::steps {

enum class Scheme { File, Http, Ssh, Rclone, Git, Hub };

struct Address {
  Scheme scheme = Scheme::File;
  std::string url;  ///< as it was written
  /// Ssh: [USER@]HOST; Rclone: the name of the remote, or how one is made; Hub: the repository,
  /// "datasets/OWNER/NAME" or "OWNER/NAME@REVISION".
  std::string host;
  int port = 0;   ///< Ssh; 0: what ssh is told elsewhere
  UrlPath place;  ///< Ssh, Rclone, Hub: relative to where a login begins, unless it begins with '/'

  std::string display() const { return display_url(url); }
};

/// Reads an address. Throws Error{InvalidInput} with how addresses are written.
Address parse_address(const std::string& url);

/// The file `name` of the folder that `folder`, or its pattern, names.
Address file_in(const Address& folder, const std::string& name);

}  // namespace dlflow::steps
