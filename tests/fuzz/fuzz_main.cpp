// usage: NAME_fuzz ROUNDS       the seeds, then ROUNDS random changes of them, always the same ones
//        NAME_fuzz FILE...      these inputs, for example what libFuzzer found
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/fuzz.h"

namespace {

using Random = std::mt19937;

size_t below(Random& random, size_t bound) { return bound == 0 ? 0 : random() % bound; }

/// Makes one small change that tends to break parsers: a bit, a boundary value, a cut, a
/// repetition.
void change(std::string& input, Random& random) {
  static constexpr char kBoundaries[] = {'\x00', '\x01', '\x7f', '\x80', '\xff',
                                         '/',    '.',    '9',    '"'};
  const size_t place = below(random, input.size());
  switch (below(random, 6)) {
    case 0:
      if (!input.empty()) input[place] = char(input[place] ^ (1 << below(random, 8)));
      break;
    case 1:
      if (!input.empty()) input[place] = kBoundaries[below(random, sizeof kBoundaries)];
      break;
    case 2:
      input.resize(place);
      break;
    case 3:
      input.erase(place, 1 + below(random, 16));
      break;
    case 4:
      input.insert(place, input.substr(below(random, input.size()), 1 + below(random, 600)));
      break;
    default:
      input.insert(place, 1, kBoundaries[below(random, sizeof kBoundaries)]);
  }
}

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s ROUNDS | FILE...\n", argv[0]);
    return 2;
  }
  if (std::filesystem::exists(argv[1])) {
    for (int i = 1; i < argc; ++i) {
      std::ifstream file(argv[i], std::ios::binary);
      run(std::string(std::istreambuf_iterator<char>(file), {}));
    }
    return 0;
  }
  const std::vector<std::string> seeds = fuzz_seeds();
  for (const std::string& seed : seeds) run(seed);
  const long rounds = std::stol(argv[1]);
  for (long round = 0; round < rounds; ++round) {
    Random random{unsigned(round)};
    std::string input = seeds[below(random, seeds.size())];
    for (size_t changes = 1 + below(random, 8); changes > 0; --changes) change(input, random);
    run(input);
  }
  std::printf("%zu seeds and %ld changed inputs\n", seeds.size(), rounds);
  return 0;
}
