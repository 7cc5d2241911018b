#pragma once

#include <string>

/// The user's identity at a registry: the login that tools store, and the token that the registry
/// requires. Source: the Docker registry's token authentication.
namespace dlflow {

/// The user's login at the registry `server` ("https://ghcr.io"), as stored by `docker login` and
/// `podman login`: name and password in base64, for HTTP's Basic authentication. Empty if there is
/// none. Searches $REGISTRY_AUTH_FILE, $DOCKER_CONFIG/config.json,
/// $XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json and ~/.docker/config.json.
/// Throws Error{InvalidInput} if others may read the file.
std::string registry_login(const std::string& server);

/// The last WWW-Authenticate among `headers`, in curl's form; empty if there is none.
std::string challenge_in(const std::string& headers);

/// Whether `challenge` ("Basic realm=\"…\"") asks for a name and a password.
bool asks_for_password(const std::string& challenge);

/// The address at which `challenge` ("Bearer realm=\"…\",service=\"…\"") offers a token that may
/// read `repository`; empty if there is none. Throws Error{Corrupt} naming `server` if it is not a
/// web address.
std::string token_address(const std::string& challenge, const std::string& repository,
                          const std::string& server);

/// The token in the answer from that address; empty if there is none. Throws Error{Corrupt} naming
/// `server` if it has characters that a token cannot have.
std::string token_in(const std::string& answer, const std::string& server);

}  // namespace dlflow
