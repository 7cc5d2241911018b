#include "runtime/generate/generation.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace dlflow::runtime {
namespace {

/// A network that reads a text of any length: after the last place it begins anew with the last
/// tokens of the text.
class Reader {
 public:
  explicit Reader(TokenNetwork& network) : network_(network) { network_.restart(); }

  std::span<const float> read(uint32_t token) {
    text_.push_back(token);
    if (network_.position() < network_.length()) return network_.read(token);
    const size_t kept = std::max<size_t>(1, network_.length() / 2);
    network_.restart();
    std::span<const float> scores;
    for (const uint32_t earlier : std::span(text_).last(kept)) scores = network_.read(earlier);
    return scores;
  }

 private:
  TokenNetwork& network_;
  std::vector<uint32_t> text_;
};

/// A network that diverged has none.
void require_numbers(std::span<const float> scores) {
  if (std::ranges::all_of(scores, [](float score) { return std::isfinite(score); })) return;
  throw Error(Errc::InvalidInput,
              "the network gives scores that are NaN or infinite; choose another checkpoint");
}

}  // namespace

GeneratedText generate(TokenNetwork& network, std::span<const uint32_t> prompt,
                       const GenerationOptions& options, uint32_t sample) {
  const std::vector<uint32_t> start = {options.end_of_text};
  const std::span<const uint32_t> given = prompt.empty() ? std::span(start) : prompt;
  Reader reader(network);
  std::span<const float> scores;
  for (const uint32_t token : given) {
    if (token >= network.vocabulary()) {
      throw Error(Errc::InvalidInput, "the prompt has token " + std::to_string(token) +
                                          ", the network knows " +
                                          std::to_string(network.vocabulary()));
    }
    scores = reader.read(token);
  }
  RandomStream random(options.seed, RandomUse::Generation, sample);
  const size_t known = std::min(options.vocabulary, network.vocabulary());
  GeneratedText text;
  while (text.tokens.size() < options.max_tokens) {
    require_numbers(scores);
    const uint32_t token =
        choose_token(scores.first(known), options.sampling, double(random.uniform()));
    text.ended = token == options.end_of_text;
    if (text.ended) return text;
    text.tokens.push_back(token);
    if (text.tokens.size() < options.max_tokens) scores = reader.read(token);
  }
  return text;
}

}  // namespace dlflow::runtime
