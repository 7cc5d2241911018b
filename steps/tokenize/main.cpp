#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "runtime/tokenizer/tokenizer.h"
#include "steps/environment/step_environment.h"

/// dlflow-tokenize: the part of `dlflow data pack` that needs SentencePiece, which cannot be in a
/// static program. Documents are read from standard input, a NUL byte behind each.
///   dlflow-tokenize train SIZE > TOKENIZER
///   dlflow-tokenize encode TOKENIZER > TOKENS    numbers of 4 bytes, an end of text behind each
namespace dlflow::steps {
namespace {

std::vector<std::string_view> documents_in(std::string_view input) {
  std::vector<std::string_view> documents;
  for (size_t begin = 0; begin < input.size();) {
    const size_t end = input.find('\0', begin);
    if (end == input.npos) throw Error(Errc::Corrupt, "the last document has no end");
    documents.push_back(input.substr(begin, end - begin));
    begin = end + 1;
  }
  return documents;
}

void write_out(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() ||
      std::fflush(stdout) != 0) {
    throw_errno("cannot write to standard output", errno);
  }
}

void encode(const std::string& file, const std::vector<std::string_view>& documents) {
  const runtime::Tokenizer tokenizer(read_file(file), file);
  for (const std::string_view document : documents) {
    std::vector<uint32_t> tokens = tokenizer.encode(document);
    tokens.push_back(tokenizer.vocabulary().end_of_text());
    write_out({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(uint32_t)});
  }
}

int tokenize(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2 || (arguments[0] != "train" && arguments[0] != "encode")) {
    throw Error(Errc::InvalidInput,
                "dlflow-tokenize is a part of `dlflow data pack`; see dlflow data pack --help");
  }
  const std::string input(std::istreambuf_iterator<char>(std::cin), {});
  const std::vector<std::string_view> documents = documents_in(input);
  if (arguments[0] == "encode") {
    encode(arguments[1], documents);
  } else {
    write_out(runtime::train_tokenizer(documents, uint32_t(std::stoul(arguments[1]))));
  }
  return 0;
}

}  // namespace
}  // namespace dlflow::steps

int main(int argc, char** argv) {
  return dlflow::steps::run_step([&] { return dlflow::steps::tokenize({argv + 1, argv + argc}); });
}
