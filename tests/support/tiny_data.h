#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/binary_format.h"
#include "runtime/data/binary_writer.h"

namespace dlflow::test {

/// `count` pictures of 8x8 bytes in 3 classes that a small network can separate: noise, with a
/// bright stripe whose row depends on the class.
inline runtime::Dataset tiny_dataset(size_t count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<uint8_t> pixels;
  std::vector<uint32_t> labels;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t label = uint32_t(random() % 3);
    labels.push_back(label);
    for (uint32_t pixel = 0; pixel < 64; ++pixel) {
      const bool stripe = pixel / 8 == 2 * label + 1;
      pixels.push_back(uint8_t(random() % 100 + (stripe ? 60 : 0)));
    }
  }
  return runtime::make_dataset({1, 8, 8}, 3, std::move(pixels), std::move(labels));
}

/// `count` sequences of 12 tokens out of 7, each the previous one plus 1 or 2.
inline runtime::Dataset tiny_text(size_t count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<uint8_t> tokens;
  for (size_t i = 0; i < count; ++i) {
    uint32_t token = uint32_t(random() % 7);
    for (int t = 0; t < 12; ++t, token += 1 + uint32_t(random() % 2)) {
      tokens.push_back(uint8_t(token % 7));
    }
  }
  return runtime::make_dataset({1, 1, 12}, 1, std::move(tokens), std::vector<uint32_t>(count));
}

/// The same, as texts of 2 to 12 tokens from a file.
inline runtime::SampleSource tiny_texts(size_t count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<std::string> texts;
  runtime::SampleSource source;
  for (size_t i = 0; i < count; ++i) {
    uint32_t token = uint32_t(random() % 7);
    const uint32_t length = 2 + uint32_t(random() % 11);
    std::string& text = texts.emplace_back();
    for (uint32_t t = 0; t < length; ++t, token += 1 + uint32_t(random() % 2)) {
      text += char(token % 7);
    }
    source.encoded_sizes.push_back(length);
  }
  source.shape = {1, 1, 12};
  source.num_classes = 7;
  source.pixel_type = runtime::PixelType::Token;
  source.labels.resize(count);
  source.image = [texts](size_t sample) { return std::string_view(texts[sample]); };
  return source;
}

/// `count` texts of 2 to 12 tokens out of 7, in 3 classes: two thirds of the tokens are 2 c or 2 c
/// + 1 in class c, the others random.
inline runtime::SampleSource tiny_text_classes(size_t count, uint32_t seed = 1) {
  runtime::SampleSource source = tiny_texts(count, seed);
  source.vocabulary = source.num_classes;
  source.num_classes = 3;
  std::mt19937 random(seed);
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t label = source.labels[i] = uint32_t(random() % 3);
    std::string& text = texts.emplace_back(source.image(i));
    for (char& token : text) {
      if (random() % 3 > 0) token = char(2 * label + random() % 2);
    }
  }
  source.image = [texts](size_t sample) { return std::string_view(texts[sample]); };
  return source;
}

inline void set_label(runtime::Dataset& dataset, size_t sample, uint32_t label) {
  std::vector<uint32_t> labels = dataset.labels.copy();
  labels[sample] = label;
  dataset.labels = std::move(labels);
}

/// Convolution, batch normalisation, pool and linear layer: all kinds of state.
inline constexpr const char* kTinyModel = R"(name: tiny
input: [1, 8, 8]
layers:
  - conv2d: {name: conv, channels: 8, kernel: 3}
  - batch_norm: {name: bn}
  - relu
  - max_pool: {kernel: 2}
  - flatten
  - linear: {name: fc, features: 3}
)";

}  // namespace dlflow::test
