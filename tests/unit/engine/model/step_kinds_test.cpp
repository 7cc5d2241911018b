#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using test::mistakes_of;

TEST_CASE("what computes on GPUs asks for them", "[mistakes]") {
  const auto train = [](const std::string& device, const std::string& resources) {
    return mistakes_of("params: {on: cuda, gpus: 0}\nsteps:\n  t:\n    uses: train\n" + resources +
                       "    with: {model: m, data: d, epochs: 1, lr: 1, device: " + device + "}\n");
  };
  const std::string refusal =
      "error: with.device of step 't' is cuda, which needs resources: {gpus_per_rank: 1}";
  CHECK(train("cuda", "") == "w.yaml:5:57: " + refusal);
  CHECK(train("cuda", "    resources: {ranks: 2}\n") == "w.yaml:6:57: " + refusal);
  CHECK(train("\"${{ params.on }}\"", "    resources: {gpus_per_rank: \"${{ params.gpus }}\"}\n") ==
        "w.yaml:6:57: " + refusal);
  CHECK(train("cuda", "    resources: {gpus_per_rank: 2}\n") == "");
  CHECK(train("cpu", "") == "");
  CHECK(train("cuda",
              "    matrix: {gpus: [0, 1]}\n"
              "    resources: {gpus_per_rank: \"${{ matrix.gpus }}\"}\n") == "");
}
