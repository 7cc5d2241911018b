#include <algorithm>

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/data/augment.h"
#include "runtime/data/binary_dataset.h"
#include "runtime/data/binary_format.h"
#include "runtime/data/binary_writer.h"
#include "runtime/data/jpeg_samples.h"
#include "runtime/data/loader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/jpeg_file.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

std::string content_of(const Dataset& dataset) {
  const test::TempDir folder;
  write_binary_dataset(folder.path() / "seed.dlset", dataset);
  return read_file(folder.path() / "seed.dlset");
}

Dataset with_masks() {
  Dataset dataset = make_dataset({1, 1, 2}, 3, std::vector<uint8_t>{}, {0, 0});
  dataset.pixels = PixelRows<uint8_t>({9, 8, 0, 2, 7, 6, 255, 1}, 4);
  dataset.has_masks = true;
  return dataset;
}

/// \param pictures  JPEG files
std::string kept(const std::vector<std::string>& pictures, const Reshaping& reshaping) {
  SampleSource source;
  source.shape = {3, 4, 5};
  source.num_classes = 2;
  source.pixel_type = PixelType::Jpeg;
  source.labels.resize(pictures.size(), 1);
  source.image = [&](size_t sample) { return std::string_view(pictures[sample]); };
  for (const std::string& picture : pictures) source.encoded_sizes.push_back(picture.size());
  source.reshaping = reshaping;
  const test::TempDir folder;
  write_binary_dataset(folder.path() / "seed.dlset", source, 0, pictures.size());
  return read_file(folder.path() / "seed.dlset");
}

/// Texts of 3 and 1 tokens of two bytes; with a vocabulary, of 300 classes.
std::string texts(uint32_t vocabulary = 0) {
  SampleSource source;
  source.shape = {1, 1, 4};
  source.num_classes = 300;
  source.vocabulary = vocabulary;
  source.pixel_type = PixelType::Token;
  source.labels.resize(2);
  const std::string bytes[] = {{1, 0, 2, 0, 43, 1}, {5, 0}};
  source.image = [&](size_t sample) { return std::string_view(bytes[sample]); };
  source.encoded_sizes = {6, 2};
  const test::TempDir folder;
  write_binary_dataset(folder.path() / "seed.dlset", source, 0, 2);
  return read_file(folder.path() / "seed.dlset");
}

/// Loads all texts, padded to the longest.
void load_texts(const Dataset& dataset) {
  if (!dataset.has_texts() || dataset.size() == 0 || dataset.shape.width > 4096) return;
  LoaderOptions options;
  options.division.global_batch = dataset.size();
  options.normalization = {{1}, {0}};
  options.text_block = 1;
  Loader(dataset, options).next();
}

/// Loads samples, unchanged and with random crops; oversized ones take too long.
void load_pictures(const Dataset& dataset) {
  const auto* const pictures = std::get_if<EncodedImages>(&dataset.pixels);
  if (pictures == nullptr || dataset.has_texts() || dataset.shape.num_values() > 4096) return;
  std::vector<uint8_t> sample(dataset.shape.num_values());
  JpegSamples samples;
  for (size_t i = 0; i < std::min<size_t>(pictures->size(), 4); ++i) {
    const std::span<const uint8_t> jpeg = (*pictures)[i];
    JpegReader picture({reinterpret_cast<const char*>(jpeg.data()), jpeg.size()}, "input");
    Augmentation part;
    part.resized_crop = 0.1;
    const ImageChange change = draw_change(part, dataset.shape, picture.shape(), jpeg.size(), 0, 0);
    samples.write(picture, view_of(change.crop, dataset.shape), dataset.shape.channels, true,
                  sample.data());
    write_as_reshaped(dataset, jpeg, "input", samples, sample.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string content(data, data + size);
  // Corrects the hash. Otherwise hardly a change would get past it.
  if (size >= 104) content.replace(40, 64, sha256_hex(content.substr(0, 40) + content.substr(104)));
  try {
    const Dataset dataset = parse_binary_dataset(shared_bytes(content), "input");
    DLFLOW_CHECK(binary_dataset_bytes(source_of(dataset), 0, dataset.size()) == size);
    load_pictures(dataset);
    load_texts(dataset);
  } catch (const Error& error) {
    DLFLOW_CHECK(error.code() == Errc::Corrupt);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  test::JpegFile progressive = test::scenery(13, 9);
  progressive.progressive = true;
  return {content_of(make_dataset({1, 1, 2}, 4, std::vector<uint8_t>{1, 2, 3, 255}, {3, 0})),
          content_of(make_dataset({2, 1, 1}, 1, std::vector<float>{0.5f, -1}, {0})),
          content_of(make_dataset({1, 1, 2}, std::vector<uint8_t>{1, 2, 3, 4}, {0.5f, -2}, 1)),
          content_of({{1, 2, 3}, 0, {}, {}}),
          content_of(with_masks()),
          texts(),
          texts(301),
          kept({"a", "bc"}, {}),
          kept({jpeg_file(test::scenery(13, 9)), jpeg_file(test::scenery(9, 40, 1))}, {6}),
          kept({jpeg_file(progressive)}, {{}, PictureSize{7, 6}, {}})};
}
