#include "runtime/train/agreement.h"

#include <array>

#include "base/error.h"
#include "base/sha256.h"
#include "base/text.h"

namespace dlflow::runtime {

void require_agreement(Communicator& comm, const std::vector<Claim>& claims) {
  for (const Claim& claim : claims) {
    std::array<char, 64> hash{};
    const std::string hex = sha256_hex(claim.value);
    hex.copy(hash.data(), hash.size());
    const auto hashes = gather(comm, hash);
    std::vector<std::string> others;
    for (size_t rank = 1; rank < hashes.size(); ++rank) {
      if (hashes[rank] != hashes[0]) others.push_back(std::to_string(rank));
    }
    if (others.empty()) continue;
    throw Error(Errc::InvalidInput,
                claim.what + " of rank" + (others.size() > 1 ? "s " : " ") + join(others, ", ") +
                    " differs from that of rank 0; start all ranks with the same files and "
                    "settings");
  }
}

}  // namespace dlflow::runtime
