#include "runtime/import/png_reader.h"

#include <csetjmp>
#include <cstring>

#include "base/error.h"
#include "runtime/import/picture.h"

namespace dlflow::runtime {
namespace {

void ignore_warning(png_structp, png_const_charp) {}

}  // namespace

void PngReader::read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* const source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->rest.size()) png_error(png, "it is truncated");
  std::memcpy(to, source->rest.data(), count);
  source->rest.remove_prefix(count);
}

void PngReader::give_up(png_structp png, png_const_charp message) {
  auto* const source = static_cast<Source*>(png_get_error_ptr(png));
  std::strncpy(source->message, message, sizeof(source->message) - 1);
  std::longjmp(png_jmpbuf(png), 1);
}

PngReader::PngReader(std::string_view content) : source_{content, ""} {
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, give_up, ignore_warning);
  if (png_ != nullptr) info_ = png_create_info_struct(png_);
  if (info_ == nullptr) throw Error(Errc::Unavailable, "there is no memory for a PNG file");
}

PngReader::~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

bool PngReader::read_header() {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_set_read_fn(png_, &source_, read_bytes);
  png_set_user_limits(png_, kMaxPictureSide, kMaxPictureSide);
  png_read_info(png_, info_);
  return true;
}

bool PngReader::transform(void (*prepare)(png_structp)) {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  prepare(png_);
  png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  return true;
}

bool PngReader::read_rows(png_bytepp rows) {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_read_image(png_, rows);
  return true;
}

}  // namespace dlflow::runtime
