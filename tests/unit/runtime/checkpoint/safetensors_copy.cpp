// usage: safetensors_copy FROM TO: reads a file and writes its tensors again, for the comparison
// with the Python package.
#include <cstdio>

#include "runtime/checkpoint/safetensors.h"

int main(int, char** argv) {
  try {
    const auto file = dlflow::runtime::Safetensors::open(argv[1]);
    dlflow::runtime::write_safetensors(argv[2], file.tensors(), file.metadata());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
