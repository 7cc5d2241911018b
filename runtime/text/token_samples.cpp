#include "runtime/text/token_samples.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <numbers>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace dlflow::runtime {
namespace {

/// The tokens in the number type of a data set.
template <typename T>
std::shared_ptr<const std::string> bytes_of(std::span<const uint32_t> tokens) {
  std::vector<T> numbers(tokens.begin(), tokens.end());
  return std::make_shared<const std::string>(reinterpret_cast<const char*>(numbers.data()),
                                             numbers.size() * sizeof(T));
}

/// The token of `number`; UINT32_MAX, which no vocabulary has, if the file is damaged.
uint32_t token_of(float number) {
  constexpr float kAboveAll = 1 << 24;
  return number >= 0 && number < kAboveAll ? uint32_t(number) : UINT32_MAX;
}

}  // namespace

SampleSource token_source(std::span<const uint32_t> tokens, uint32_t length,
                          const Vocabulary& vocabulary) {
  const size_t count = tokens.size() / length;
  const std::span<const uint32_t> used = tokens.first(count * length);
  const bool floats = !vocabulary.has_bytes_alone();
  const auto numbers = floats ? bytes_of<float>(used) : bytes_of<uint8_t>(used);
  const size_t row = length * (floats ? sizeof(float) : 1);
  SampleSource source;
  source.shape = {1, 1, length};
  source.num_classes = uint32_t(vocabulary.size());
  source.pixel_type = floats ? PixelType::Float : PixelType::Byte;
  source.labels.resize(count);
  source.image = [numbers, row](size_t sample) {
    return std::string_view(*numbers).substr(sample * row, row);
  };
  source.tokenizer = vocabulary.id();
  return source;
}

SampleSource text_source(std::span<const uint32_t> tokens, std::span<const uint32_t> lengths,
                         uint32_t longest, const Vocabulary& vocabulary) {
  SampleSource source;
  source.shape = {1, 1, longest};
  source.num_classes = uint32_t(vocabulary.size());
  source.pixel_type = PixelType::Token;
  source.labels.resize(lengths.size());
  source.tokenizer = vocabulary.id();
  const uint32_t token_bytes = token_bytes_of(source.num_classes);
  const auto bytes = token_bytes == 1   ? bytes_of<uint8_t>(tokens)
                     : token_bytes == 2 ? bytes_of<uint16_t>(tokens)
                                        : bytes_of<uint32_t>(tokens);
  std::vector<size_t> first(1, 0);
  for (const uint32_t length : lengths) {
    DLFLOW_CHECK(length > 0 && length <= longest);
    source.encoded_sizes.push_back(uint64_t(length) * token_bytes);
    first.push_back(first.back() + size_t(length) * token_bytes);
  }
  DLFLOW_CHECK(first.back() == bytes->size());
  source.image = [bytes, first = std::move(first)](size_t sample) {
    return std::string_view(*bytes).substr(first[sample], first[sample + 1] - first[sample]);
  };
  return source;
}

std::vector<uint32_t> tokens_of(const Dataset& dataset, size_t sample) {
  if (dataset.has_texts()) {
    const std::span<const uint8_t> text = std::get<EncodedImages>(dataset.pixels)[sample];
    std::vector<uint32_t> tokens;
    for (size_t at = 0; at < text.size(); at += dataset.token_bytes) {
      tokens.push_back(token_at(text.data() + at, dataset.token_bytes));
    }
    return tokens;
  }
  return std::visit(
      [&](const auto& rows) {
        std::vector<uint32_t> tokens;
        for (const auto number : rows[sample]) tokens.push_back(token_of(float(number)));
        return tokens;
      },
      dataset.pixels);
}

uint64_t text_bytes(const Dataset& dataset, const Vocabulary& vocabulary, size_t first) {
  uint64_t bytes = 0;
  for (size_t sample = 0; sample < dataset.size(); ++sample) {
    const std::vector<uint32_t> tokens = tokens_of(dataset, sample);
    for (const uint32_t token : std::span(tokens).subspan(first)) {
      if (token >= vocabulary.size()) {
        throw Error(Errc::Corrupt, fmt::format("sample {} has token {}, but the tokenizer has {}",
                                               sample, token, vocabulary.size()));
      }
      bytes += vocabulary.text_of(token).size();
    }
  }
  return bytes;
}

double bits_per_byte(double loss, const Dataset& dataset, const Vocabulary& vocabulary) {
  const auto tokens = double(num_tokens(dataset) - dataset.size());  // without each sample's first
  const auto bytes = double(std::max<uint64_t>(1, text_bytes(dataset, vocabulary, 1)));
  return loss / std::numbers::ln2 * tokens / bytes;
}

Vocabulary read_vocabulary(const std::string& tokenizer, const std::filesystem::path& folder) {
  Vocabulary bytes = Vocabulary::bytes();
  if (tokenizer == bytes.id()) return bytes;
  const std::filesystem::path file = folder / kTokenizerFile;
  if (!std::filesystem::exists(file)) {
    throw Error(Errc::NotFound,
                file.string() + ": the tokenizer that made the data is missing; copy it there");
  }
  Vocabulary vocabulary = Vocabulary::parse(read_file(file), file.string());
  if (vocabulary.id() == tokenizer) return vocabulary;
  throw Error(Errc::Corrupt, file.string() +
                                 ": is not the tokenizer that made the data beside it; copy that "
                                 "one, whose SHA-256 begins with " +
                                 tokenizer);
}

}  // namespace dlflow::runtime
