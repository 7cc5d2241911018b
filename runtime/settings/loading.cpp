#include <string>

#include "runtime/settings/parts.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {

std::optional<size_t> read_loader_threads(WithReader& reader) {
  constexpr size_t kMost = 256;
  if (reader.find("loader_threads") == nullptr) return {};
  const size_t threads = reader.count("loader_threads", 1, 1);
  if (threads > kMost) WithReader::fail("loader_threads", "at most " + std::to_string(kMost));
  return threads;
}

}  // namespace dlflow::runtime
