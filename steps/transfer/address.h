#pragma once

#include <string>

#include "base/url.h"

/// The sources and destinations of files, as a workflow writes them.
namespace dlflow::steps {

enum class Scheme { File, Http, Ssh, Rclone, Git, Hub };

struct Address {
  Scheme scheme = Scheme::File;
  std::string url;  ///< as written
  /// Ssh: [USER@]HOST; Rclone: the name of the remote, or the text that creates one; Hub: the
  /// repository, "datasets/OWNER/NAME" or "OWNER/NAME@REVISION".
  std::string host;
  int port = 0;   ///< for Ssh; 0: from ssh's configuration
  UrlPath place;  ///< Ssh, Rclone, Hub: relative to the login folder unless it begins with '/'

  std::string display() const { return display_url(url); }
};

/// Parses an address. Throws Error{InvalidInput} with the syntax of addresses.
Address parse_address(const std::string& url);

/// The file `name` in `folder`, or in the folder of its pattern.
Address file_in(const Address& folder, const std::string& name);

}  // namespace dlflow::steps
