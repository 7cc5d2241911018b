#include "base/endpoint.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <sstream>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow {
namespace {

/// 128 random bits in hexadecimal.
std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != ssize_t(bytes.size())) {
    throw_errno("random numbers for a connection between ranks", errno);
  }
  return hexadecimal(bytes);
}

}  // namespace

bool knows_token(const Endpoint& endpoint, std::string_view shown) {
  const std::string& token = endpoint.token;
  return shown.size() == token.size() && !token.empty() &&
         ::CRYPTO_memcmp(shown.data(), token.data(), token.size()) == 0;
}

Endpoint endpoint_of(const Listener& listener) {
  return {random_token(), host_name(), listener.port, own_addresses()};
}

std::vector<std::string> addresses_to_try(const Endpoint& endpoint) {
  std::vector<std::string> addresses = endpoint.addresses;
  if (endpoint.node == host_name()) addresses.insert(addresses.begin(), {"127.0.0.1", "::1"});
  return addresses;
}

std::string to_string(const Endpoint& endpoint) {
  std::string text = endpoint.token + " " + endpoint.node + " " + std::to_string(endpoint.port);
  for (const std::string& address : endpoint.addresses) text += " " + address;
  return text;
}

Endpoint endpoint_from(const std::string& text) {
  Endpoint endpoint;
  std::istringstream words(text);
  words >> endpoint.token >> endpoint.node >> endpoint.port;
  for (std::string address; words >> address;) endpoint.addresses.push_back(address);
  return endpoint;
}

}  // namespace dlflow
