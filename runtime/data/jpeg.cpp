#include "runtime/data/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <utility>

#include "base/error.h"

#ifdef DLFLOW_JPEG
#include <jpeglib.h>
// Message codes; needs jpeglib.h.
#include <jerror.h>
#endif

namespace dlflow::runtime {

#ifdef DLFLOW_JPEG
namespace {

/// A progressive file may have any number of scans, each of which costs a pass over the picture;
/// encoders write about ten.
constexpr int kMaxScans = 200;
constexpr long kMaxMemory = 1L << 30;

/// Callbacks of libjpeg. It has no exceptions: an error jumps back to the caller of libjpeg.
struct Callbacks {
  jpeg_error_mgr errors;  // must be first: libjpeg has a pointer to it
  jpeg_progress_mgr progress;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void give_up(j_common_ptr jpeg) {
  auto* const callbacks = reinterpret_cast<Callbacks*>(jpeg->err);
  jpeg->err->format_message(jpeg, callbacks->message);
  std::longjmp(callbacks->back, 1);
}

/// Warnings mean missing or invented data, except for these.
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

}  // namespace

/// The decoder, which is freed on exceptions, too.
struct JpegReader::Decoder {
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

  // Each returns false, with a message, on failure. They hold only trivial objects, because longjmp
  // skips destructors.
  bool read_header(std::string_view content);
  bool read_all(uint8_t* values);
  bool begin_part(CropBox& box, uint32_t reduce_by, bool in_color);
  bool read_rows(const CropBox& box, uint8_t* values);
};

bool JpegReader::Decoder::read_header(std::string_view content) {
  if (setjmp(callbacks.back) != 0) return false;
  jpeg_create_decompress(&jpeg);
  jpeg.progress = &callbacks.progress;
  jpeg.mem->max_memory_to_use = kMaxMemory;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(content.data()), content.size());
  return jpeg_read_header(&jpeg, TRUE) == JPEG_HEADER_OK;
}

/// Decodes row by row into `values`, which must have room for all rows.
bool JpegReader::Decoder::read_all(uint8_t* values) {
  if (setjmp(callbacks.back) != 0) return false;
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

/// Converts `box` to the reduced picture and widens it. The decoder starts at whole blocks and
/// invents the pixels beside them, so the outermost column would differ from the whole picture's.
bool JpegReader::Decoder::begin_part(CropBox& box, uint32_t reduce_by, bool in_color) {
  constexpr JDIMENSION kMargin = 2;
  if (setjmp(callbacks.back) != 0) return false;
  jpeg.out_color_space = in_color ? JCS_EXT_RGBX : JCS_GRAYSCALE;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg.scale_num = 1;
  jpeg.scale_denom = reduce_by;
  jpeg_start_decompress(&jpeg);
  const JDIMENSION left = box.left / reduce_by, top = box.top / reduce_by;
  const JDIMENSION right =
      std::min((box.left + box.width + reduce_by - 1) / reduce_by + kMargin, jpeg.output_width);
  const JDIMENSION bottom =
      std::min((box.top + box.height + reduce_by - 1) / reduce_by, jpeg.output_height);
  JDIMENSION first = left - std::min(left, kMargin), width = right - first;
  if (width < jpeg.output_width) jpeg_crop_scanline(&jpeg, &first, &width);
  if (top > 0) jpeg_skip_scanlines(&jpeg, top);
  box = {top, first, bottom - top, width};
  return true;
}

bool JpegReader::Decoder::read_rows(const CropBox& box, uint8_t* values) {
  if (setjmp(callbacks.back) != 0) return false;
  for (JDIMENSION y = 0; y < box.height;) {
    JSAMPROW row = values + size_t(y) * box.width * size_t(jpeg.output_components);
    y += jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_abort_decompress(&jpeg);
  return true;
}

bool can_read_jpeg() { return true; }

JpegReader::JpegReader(std::string_view content, std::string name)
    : name_(std::move(name)), decoder_(std::make_unique<Decoder>()) {
  if (!decoder_->read_header(content)) refuse();
  const jpeg_decompress_struct& jpeg = decoder_->jpeg;
  if (jpeg.num_components != 1 && jpeg.num_components != 3) {
    throw_corrupt(name_, "is neither grey nor in RGB; convert it");
  }
  shape_ = {uint32_t(jpeg.num_components), jpeg.image_height, jpeg.image_width};
  require_picture_size(shape_, name_);
}

void JpegReader::refuse() const {
  throw_corrupt(name_, std::string("is a damaged JPEG file: ") + decoder_->callbacks.message);
}

std::vector<uint8_t> JpegReader::read_all() {
  std::vector<uint8_t> values(shape_.num_values());
  if (!decoder_->read_all(values.data())) refuse();
  return values;
}

void JpegReader::read_part(const CropBox& box, uint32_t reduce_by, bool in_color,
                           DecodedPart& part) {
  DLFLOW_CHECK(box.width > 0 && box.left + box.width <= shape_.width);
  DLFLOW_CHECK(box.height > 0 && box.top + box.height <= shape_.height);
  part.box = box;
  part.reduced_by = reduce_by;
  part.values_per_pixel = in_color ? 4 : 1;
  if (!decoder_->begin_part(part.box, reduce_by, in_color)) refuse();
  part.values.resize(size_t(part.box.height) * part.box.width * part.values_per_pixel);
  if (!decoder_->read_rows(part.box, part.values.data())) refuse();
}

#else

struct JpegReader::Decoder {};

bool can_read_jpeg() { return false; }

JpegReader::JpegReader(std::string_view, std::string name) : name_(std::move(name)) { refuse(); }

void JpegReader::refuse() const {
  throw_corrupt(name_,
                "is a JPEG file, and this dlflow was built without libjpeg; convert it to PNG, or "
                "build dlflow with libjpeg (Debian: libjpeg-dev)");
}

std::vector<uint8_t> JpegReader::read_all() { refuse(); }

void JpegReader::read_part(const CropBox&, uint32_t, bool, DecodedPart&) { refuse(); }

#endif

JpegReader::~JpegReader() = default;

}  // namespace dlflow::runtime
