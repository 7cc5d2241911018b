#include "runtime/import/jpeg.h"

#include <csetjmp>
#include <cstdio>

#include "base/error.h"

#ifdef DLFLOW_JPEG
#include <jpeglib.h>
// The numbers of its messages; needs jpeglib.h.
#include <jerror.h>
#endif

namespace dlflow::runtime {

#ifdef DLFLOW_JPEG
namespace {

/// A progressive file may have as many scans as its author likes, each of which costs a pass over
/// the picture; encoders write about ten.
constexpr int kMaxScans = 200;
constexpr long kMaxMemory = 1L << 30;

/// What libjpeg calls. It has no exceptions: a mistake jumps back to where the call was made.
struct Callbacks {
  jpeg_error_mgr errors;  // the first member: libjpeg has a pointer to it
  jpeg_progress_mgr progress;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void give_up(j_common_ptr jpeg) {
  auto* const callbacks = reinterpret_cast<Callbacks*>(jpeg->err);
  jpeg->err->format_message(jpeg, callbacks->message);
  std::longjmp(callbacks->back, 1);
}

/// A warning means that data is missing or made up, but for these.
void judge(j_common_ptr jpeg, int level) {
  const int code = jpeg->err->msg_code;
  const bool is_harmless =
      code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_BOGUS_ICC;
  if (level < 0 && !is_harmless) give_up(jpeg);
}

void count_scans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMaxScans) return;
  auto* const callbacks = reinterpret_cast<Callbacks*>(jpeg->err);
  std::snprintf(callbacks->message, sizeof(callbacks->message), "more than %d scans", kMaxScans);
  std::longjmp(callbacks->back, 1);
}

/// The decoder, freed also when something is thrown.
struct Decoder {
  jpeg_decompress_struct jpeg{};
  Callbacks callbacks{};

  Decoder() {
    jpeg.err = jpeg_std_error(&callbacks.errors);
    callbacks.errors.error_exit = give_up;
    callbacks.errors.emit_message = judge;
    callbacks.progress.progress_monitor = count_scans;
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }
};

/// False, with a message, if it is no JPEG file. Only trivial objects live here: longjmp passes
/// them.
bool read_header(Decoder& decoder, std::string_view content) {
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  if (setjmp(decoder.callbacks.back) != 0) return false;
  jpeg_create_decompress(&jpeg);
  jpeg.progress = &decoder.callbacks.progress;
  jpeg.mem->max_memory_to_use = kMaxMemory;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(content.data()), content.size());
  return jpeg_read_header(&jpeg, TRUE) == JPEG_HEADER_OK;
}

/// Row by row into `values`, which has room for all.
bool read_values(Decoder& decoder, uint8_t* values) {
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  if (setjmp(decoder.callbacks.back) != 0) return false;
  jpeg.out_color_space = jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg.dct_method = JDCT_ISLOW;  // the same numbers on every processor
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row =
        values + size_t(jpeg.output_scanline) * jpeg.output_width * size_t(jpeg.output_components);
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

}  // namespace

bool can_read_jpeg() { return true; }

Picture parse_jpeg(std::string_view content, const std::string& name) {
  Decoder decoder;
  const auto refuse = [&] {
    refuse_picture(name, std::string("is a damaged JPEG file: ") + decoder.callbacks.message);
  };
  if (!read_header(decoder, content)) refuse();
  const jpeg_decompress_struct& jpeg = decoder.jpeg;
  if (jpeg.num_components != 1 && jpeg.num_components != 3) {
    refuse_picture(name, "is neither grey nor in RGB; convert it");
  }
  Picture picture;
  picture.shape = {uint32_t(jpeg.num_components), jpeg.image_height, jpeg.image_width};
  require_picture_size(picture.shape, name);
  std::vector<uint8_t> values(picture.shape.num_values());
  if (!read_values(decoder, values.data())) refuse();
  picture.values = channels_first(picture.shape, values.data());
  return picture;
}

#else

bool can_read_jpeg() { return false; }

Picture parse_jpeg(std::string_view, const std::string& name) {
  refuse_picture(name,
                 "is a JPEG file, and this dlflow was built without libjpeg; convert it to PNG, or "
                 "build dlflow with libjpeg (Debian: libjpeg-dev)");
}

#endif

}  // namespace dlflow::runtime
