#pragma once

#include <string>

/// The user's identity at a registry: a login that tools keep, and the token that the registry asks
/// for; the text of others, read. Source: the Docker registry's token authentication.
namespace dlflow {

/// Who the user is at the registry `server` ("https://ghcr.io"), as `docker login` and `podman
/// login` keep it: name and password in base64, for HTTP's Basic authentication. Empty if they keep
/// nothing for it. Looked for in $REGISTRY_AUTH_FILE, $DOCKER_CONFIG/config.json,
/// $XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json and ~/.docker/config.json.
/// Throws Error{InvalidInput} if others may read the file.
std::string registry_login(const std::string& server);

/// The last WWW-Authenticate among `headers`, as curl writes them down; empty if there is none.
std::string challenge_in(const std::string& headers);

/// Whether `challenge` ("Basic realm=\"…\"") is for a name and a password.
bool asks_for_password(const std::string& challenge);

/// Where `challenge` ("Bearer realm=\"…\",service=\"…\"") has a token fetched that may read
/// `repository`; empty if it names no place. Throws Error{Corrupt} naming `server` if that place is
/// not in the web.
std::string token_address(const std::string& challenge, const std::string& repository,
                          const std::string& server);

/// The token in what that address answers; empty if there is none. Throws Error{Corrupt} naming
/// `server` if it is not made of the characters of a token.
std::string token_in(const std::string& answer, const std::string& server);

}  // namespace dlflow
