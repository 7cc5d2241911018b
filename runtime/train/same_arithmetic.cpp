#include "runtime/train/same_arithmetic.h"

#include "runtime/train/agreement.h"

namespace dlflow::runtime {

void require_same_arithmetic(Communicator& comm, const WeightLayout& layout,
                             const std::string& arithmetic, bool exact) {
  const std::string advice =
      "start all ranks on processors of one kind with one build, or with ONEDNN_MAX_CPU_ISA set to "
      "what all of them have (AVX2)";
  std::vector<Claim> claims = {
      {"the order of the weights in memory", layout.formats(), arithmetic, advice}};
  if (exact) {
    claims.push_back({"the arithmetic", arithmetic, arithmetic,
                      advice + ", or with precision: {reduction: fast}"});
  }
  require_agreement(comm, claims);
}

}  // namespace dlflow::runtime
