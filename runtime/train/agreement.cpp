#include "runtime/train/agreement.h"

#include <array>

#include "base/error.h"
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {
namespace {

/// Returns " (avx2; rank 0: avx512_core)", or nothing if the value has no readable form.
std::string difference(Communicator& comm, const CommonValue& value, int other) {
  const std::string theirs = broadcast_text(comm, value.shown, other);
  const std::string first = broadcast_text(comm, value.shown, 0);
  return theirs.empty() ? "" : " (" + theirs + "; rank 0: " + first + ")";
}

}  // namespace

void require_agreement(Communicator& comm, const std::vector<CommonValue>& values) {
  for (const CommonValue& value : values) {
    std::array<char, 64> hash{};
    const std::string hex = sha256_hex(value.value);
    hex.copy(hash.data(), hash.size());
    const auto hashes = gather(comm, hash);
    std::vector<int> others;
    std::vector<std::string> names;
    for (int rank = 1; rank < comm.size(); ++rank) {
      if (hashes[size_t(rank)] == hashes[0]) continue;
      others.push_back(rank);
      names.push_back(std::to_string(rank));
    }
    if (others.empty()) continue;
    throw Error(Errc::InvalidInput, value.what + " of rank" + (others.size() > 1 ? "s " : " ") +
                                        join(names, ", ") + " differs from that of rank 0" +
                                        difference(comm, value, others.front()) + "; " +
                                        value.advice);
  }
}

}  // namespace dlflow::runtime
