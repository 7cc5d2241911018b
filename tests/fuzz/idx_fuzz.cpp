#include "base/error.h"
#include "runtime/data/idx.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::string_literals;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const IdxArray array = parse_idx({reinterpret_cast<const char*>(data), size}, "input");
    DLFLOW_CHECK(array.values.size() + 4 + 4 * array.dimensions.size() == size);
  } catch (const Error& error) {
    DLFLOW_CHECK(error.code() == Errc::Corrupt);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"\0\0\x08\x01\0\0\0\x02\x07\x03"s,
          "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03"s + std::string(12, 'p'),
          "\0\0\x08\x04\0\0\0\x01\0\0\0\x03\0\0\0\x01\0\0\0\x02"s + std::string(6, 'p'),
          "\0\0\x08\x02\0\0\0\0\xff\xff\xff\xff"s};
}
