#pragma once

#include <zlib.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

/// The pieces of ZIP archives that all their readers need. (minizip, which writes them, reads none
/// whose sizes or places need more than 32 bits.)
namespace dlflow {

/// The number that `count` bytes from `offset` on are, the least significant first.
uint64_t little_endian(std::string_view bytes, size_t offset, size_t count);

/// Unpacks one stream of raw deflate, piece by piece.
class Inflater {
 public:
  enum class Status {
    More,
    End,
    Damaged,  ///< it is none, or something follows its end
  };

  Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater();

  /// Hands what `packed` unpacks to on to `use`.
  Status unpack(std::string& packed, const std::function<void(std::string_view)>& use);

 private:
  std::string buffer_;
  z_stream stream_{};
};

}  // namespace dlflow
