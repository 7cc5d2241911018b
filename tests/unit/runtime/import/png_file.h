#pragma once

#include <png.h>

#include <functional>
#include <string>

namespace dlflow::test {

/// A PNG file; `fill` sets its header and writes its rows.
inline std::string png_file(const std::function<void(png_structp, png_infop)>& fill) {
  png_structp file = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(file);
  std::string content;
  const auto write = [](png_structp to, png_bytep bytes, size_t count) {
    static_cast<std::string*>(png_get_io_ptr(to))->append(reinterpret_cast<char*>(bytes), count);
  };
  png_set_write_fn(file, &content, write, nullptr);
  fill(file, info);
  png_write_end(file, info);
  png_destroy_write_struct(&file, &info);
  return content;
}

}  // namespace dlflow::test
