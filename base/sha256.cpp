// Uses the low-level functions of libcrypto: EVP would add several MiB of providers to the static
// binary.
#define OPENSSL_API_COMPAT 0x10101000L
#include "base/sha256.h"

#include <fcntl.h>
#include <openssl/sha.h>

#include <memory>

#include "base/file.h"
#include "base/text.h"

namespace dlflow {
namespace {

SHA256_CTX* context(std::array<uint32_t, 28>& state) {
  static_assert(sizeof(SHA256_CTX) <= sizeof(state) && alignof(SHA256_CTX) <= alignof(uint32_t));
  return reinterpret_cast<SHA256_CTX*>(state.data());
}

}  // namespace

Sha256::Sha256() { SHA256_Init(context(state_)); }

Sha256& Sha256::update(std::string_view bytes) {
  SHA256_Update(context(state_), bytes.data(), bytes.size());
  return *this;
}

std::string Sha256::hex() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256_Final(digest.data(), context(state_));
  return hexadecimal(digest);
}

std::string sha256_hex(std::string_view bytes) { return Sha256().update(bytes).hex(); }

std::string sha256_file(const std::filesystem::path& path,
                        const std::function<void(uint64_t)>& progress) {
  const FileDescriptor file = open_or_throw(path, O_RDONLY);
  Sha256 hash;
  constexpr size_t kBufferBytes = size_t{1} << 20;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  uint64_t total = 0;
  while (true) {
    const size_t got = read_some(file.get(), {buffer.get(), kBufferBytes}, path);
    if (got == 0) return hash.hex();
    hash.update({buffer.get(), got});
    total += got;
    if (progress) progress(total);
  }
}

}  // namespace dlflow
