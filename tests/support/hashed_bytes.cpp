#include "tests/support/hashed_bytes.h"

#include <cstddef>

extern "C" {
int __real_SHA256_Update(void* context, const void* bytes, size_t count);

/// The linker substitutes this for libcrypto's function.
int __wrap_SHA256_Update(void* context, const void* bytes, size_t count) {
  dlflow::test::num_hashed_bytes += count;
  return __real_SHA256_Update(context, bytes, count);
}
}
