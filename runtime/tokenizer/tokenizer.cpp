#include "runtime/tokenizer/tokenizer.h"

#include "base/error.h"

#ifdef DLFLOW_SENTENCEPIECE
#include <fmt/core.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <regex>
#include <unordered_map>
#endif

namespace dlflow::runtime {

#ifdef DLFLOW_SENTENCEPIECE
namespace {

/// SentencePiece writes spaces as this character, and so takes it for a space.
constexpr std::string_view kSpace = "\xE2\x96\x81";

/// The lines of documents.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::span<const std::string_view> documents) : documents_(documents) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  void Next() override {
    while (document_ < documents_.size()) {
      const std::string_view text = documents_[document_];
      const size_t end = std::min(text.find('\n', at_), text.size());
      line_ = text.substr(at_, end - at_);
      at_ = end + 1;
      if (at_ >= text.size()) {
        ++document_;
        at_ = 0;
      }
      if (!line_.empty()) return;
    }
    done_ = true;
  }

 private:
  std::span<const std::string_view> documents_;
  size_t document_ = 0, at_ = 0;
  std::string line_;
  bool done_ = false;
};

std::unordered_map<std::string, std::string> training_options(uint32_t size) {
  return {{"model_type", "bpe"},
          {"vocab_size", std::to_string(size)},
          {"byte_fallback", "true"},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"allow_whitespace_only_pieces", "true"},
          {"max_sentence_length", "1073741824"},  // longer ones would be left out
          {"num_threads", "1"},
          {"unk_id", "0"},
          {"eos_id", "1"},
          {"bos_id", "-1"},
          {"pad_id", "-1"},
          {"eos_piece", std::string(kEndOfText)},
          {"minloglevel", "3"}};
}

/// What SentencePiece refuses, as advice.
[[noreturn]] void refuse_training(uint32_t size, const std::string& reason) {
  std::smatch found;
  static const std::regex too_large("value <= ([0-9]+)"), too_small("[0-9]+ vs ([0-9]+)");
  std::string told = "SentencePiece says: " + reason;
  if (std::regex_search(reason, found, too_large)) {
    told = "the text has pairs for " + found[1].str() + " tokens; choose at most that, or add text";
  } else if (std::regex_search(reason, found, too_small)) {
    told = "bytes and the characters of the text need " + found[1].str() +
           " tokens; choose more than that";
  }
  throw Error(Errc::InvalidInput, fmt::format("a vocabulary of {} tokens: {}", size, told));
}

}  // namespace

struct Tokenizer::Pieces {
  sentencepiece::SentencePieceProcessor processor;
};

std::string train_tokenizer(std::span<const std::string_view> documents, uint32_t size) {
  Lines lines(documents);
  if (lines.done()) {
    throw Error(Errc::InvalidInput, "the text has nothing but line ends: there are no byte pairs");
  }
  std::string content;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train(training_options(size), &lines, &content);
  if (!status.ok()) refuse_training(size, status.ToString());
  return content;
}

Tokenizer::Tokenizer(std::string_view content, const std::string& name)
    : name_(name),
      vocabulary_(content.empty() ? Vocabulary::bytes() : Vocabulary::parse(content, name)) {
  if (content.empty()) return;
  pieces_ = std::make_unique<Pieces>();
  const auto status = pieces_->processor.LoadFromSerializedProto(content);
  if (!status.ok()) throw Error(Errc::Corrupt, name + ": " + status.ToString());
}

/// Line ends are in no piece, so a text may be divided at them; where the character lies that
/// SentencePiece takes for a space, bytes are written.
void Tokenizer::encode_line(std::string_view line, std::vector<uint32_t>& tokens) const {
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find(kSpace, begin), line.size());
    if (end > begin) {
      std::vector<int> ids;
      const auto status = pieces_->processor.Encode(line.substr(begin, end - begin), &ids);
      if (!status.ok()) throw Error(Errc::InvalidInput, name_ + ": " + status.ToString());
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
    if (end < line.size()) {
      for (const char byte : kSpace) tokens.push_back(vocabulary_.token_of((unsigned char)(byte)));
    }
    begin = end + kSpace.size();
  }
}

#else  // bytes alone

struct Tokenizer::Pieces {};

std::string train_tokenizer(std::span<const std::string_view>, uint32_t) {
  throw Error(Errc::InvalidInput,
              "this dlflow was built without SentencePiece (Debian: libsentencepiece-dev), so it "
              "knows no byte pairs; build it with the library, or use --tokens bytes");
}

Tokenizer::Tokenizer(std::string_view content, const std::string& name)
    : name_(name), vocabulary_(Vocabulary::bytes()) {
  if (!content.empty()) train_tokenizer({}, 0);
}

void Tokenizer::encode_line(std::string_view, std::vector<uint32_t>&) const {}

#endif

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;

std::vector<uint32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<uint32_t> tokens;
  if (!pieces_) {
    for (const char byte : text) tokens.push_back(vocabulary_.token_of((unsigned char)(byte)));
    return tokens;
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    encode_line(text.substr(begin, end - begin), tokens);
    if (end < text.size()) tokens.push_back(vocabulary_.token_of('\n'));
    begin = end + 1;
  }
  if (vocabulary_.decode(tokens) == text) return tokens;
  throw Error(Errc::InvalidInput,
              name_ +
                  ": this tokenizer changes texts (it normalises them, or adds spaces), so what "
                  "it makes of them cannot be undone; use one that keeps them");
}

}  // namespace dlflow::runtime
