#include "base/archive/inflate.h"

#include "base/error.h"

namespace dlflow {

uint64_t little_endian(std::string_view bytes, size_t offset, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | uint8_t(bytes[offset + i]);
  return value;
}

Inflater::Inflater() : buffer_(size_t{1} << 18, '\0') {
  if (::inflateInit2(&stream_, -MAX_WBITS) != Z_OK) {
    throw Error(Errc::Unavailable, "zlib has no memory");
  }
}

Inflater::~Inflater() { ::inflateEnd(&stream_); }

Inflater::Status Inflater::unpack(std::string& packed,
                                  const std::function<void(std::string_view)>& use) {
  stream_.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream_.avail_in = uInt(packed.size());
  int status = Z_OK;
  do {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_out = uInt(buffer_.size());
    status = ::inflate(&stream_, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) return Status::Damaged;
    use(std::string_view(buffer_.data(), buffer_.size() - stream_.avail_out));
  } while (status != Z_STREAM_END && stream_.avail_out == 0);
  if (stream_.avail_in != 0) return Status::Damaged;
  return status == Z_STREAM_END ? Status::End : Status::More;
}

}  // namespace dlflow
