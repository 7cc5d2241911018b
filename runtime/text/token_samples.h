#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/binary_writer.h"
#include "runtime/text/vocabulary.h"

/// Tokens as samples of a data set.
namespace dlflow::runtime {

/// Samples of `length` consecutive `tokens`; a shorter rest at the end is dropped. They are bytes,
/// or floats for tokens of byte pairs. Each sample has label 0, and there are as many classes as
/// tokens in the vocabulary.
SampleSource token_source(std::span<const uint32_t> tokens, uint32_t length,
                          const Vocabulary& vocabulary);

/// Samples that are texts, stored one after the other in `tokens`, with the given `lengths`; none
/// is longer than `longest`.
SampleSource text_source(std::span<const uint32_t> tokens, std::span<const uint32_t> lengths,
                         uint32_t longest, const Vocabulary& vocabulary);

/// The tokens of a sample of a data set.
std::vector<uint32_t> tokens_of(const Dataset& dataset, size_t sample);

/// The number of bytes of text that the tokens of `dataset` encode, without the first `first`
/// tokens of each sample. Reads all of it. Throws Error{Corrupt} if a token is not in `vocabulary`.
uint64_t text_bytes(const Dataset& dataset, const Vocabulary& vocabulary, size_t first = 0);

/// The loss of a language model in bits per byte of the predicted text, which is all tokens of a
/// sample but the first. Allows comparing models with different tokenizers.
/// \param loss  in nats per predicted token
double bits_per_byte(double loss, const Dataset& dataset, const Vocabulary& vocabulary);

/// The vocabulary of the tokens in `folder`; `tokenizer` is its id. Throws Error: NotFound if the
/// tokenizer's file is missing, Corrupt if it is a different one.
Vocabulary read_vocabulary(const std::string& tokenizer, const std::filesystem::path& folder);

}  // namespace dlflow::runtime
