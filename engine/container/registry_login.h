#pragma once

#include <string>

namespace dlflow {

/// Who the user is at the registry `server` ("https://ghcr.io"), as `docker login` and `podman
/// login` keep it: name and password in base64, for HTTP's Basic authentication. Empty if they keep
/// nothing for it. Looked for in $REGISTRY_AUTH_FILE, $DOCKER_CONFIG/config.json,
/// $XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json and ~/.docker/config.json.
/// Throws Error{InvalidInput} if others may read the file.
std::string registry_login(const std::string& server);

}  // namespace dlflow
