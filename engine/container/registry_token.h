#pragma once

#include <string>

/// How a registry asks for a token, and what it is given for it: the text of others, read.
/// Source: the Docker registry's token authentication.
namespace dlflow {

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
