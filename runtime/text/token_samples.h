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

/// Samples of `length` tokens that follow each other in `tokens`; fewer than `length` at the end
/// are left out. They are bytes, or floats for tokens of byte pairs; each sample has label 0, and
/// there are as many classes as tokens of the vocabulary.
SampleSource token_source(std::span<const uint32_t> tokens, uint32_t length,
                          const Vocabulary& vocabulary);

/// Samples that are texts of as many tokens each as `lengths` says, one behind the other in
/// `tokens`; none has more than `longest`.
SampleSource text_source(std::span<const uint32_t> tokens, std::span<const uint32_t> lengths,
                         uint32_t longest, const Vocabulary& vocabulary);

/// The tokens of a sample of a data set.
std::vector<uint32_t> tokens_of(const Dataset& dataset, size_t sample);

/// The bytes of text that the tokens of `dataset` stand for, of each sample from number `first` on.
/// Reads all of it. Throws Error{Corrupt} if one is none of `vocabulary`.
uint64_t text_bytes(const Dataset& dataset, const Vocabulary& vocabulary, size_t first = 0);

/// The loss of a language model in bits for each byte of the text that it foretells, all tokens of
/// a sample but the first: with it, models of different tokenizers can be compared.
/// \param loss  in nats for each of these tokens
double bits_per_byte(double loss, const Dataset& dataset, const Vocabulary& vocabulary);

/// The vocabulary of tokens that lie in `folder`; `tokenizer` is its id. Throws Error: NotFound if
/// the file of the tokenizer is not there, Corrupt if another one is.
Vocabulary read_vocabulary(const std::string& tokenizer, const std::filesystem::path& folder);

}  // namespace dlflow::runtime
