#include "runtime/watch/watch_end.h"

#include <sstream>

namespace dlflow::runtime {

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

}  // namespace dlflow::runtime
