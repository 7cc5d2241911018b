#include "tests/support/fake_slurm/options.h"

#include <getopt.h>

namespace dlflow::fake_slurm {

const std::string* Words::find(const std::string& name) const {
  for (auto option = options.rbegin(); option != options.rend(); ++option) {
    if (option->first == name) return &option->second;
  }
  return nullptr;
}

std::optional<Words> parse_words(const std::vector<std::string>& argv,
                                 std::span<const Option> options, bool stop) {
  constexpr int kFirst = 1000;  // values of long options: no letter
  std::string letters = stop ? "+" : "";
  std::vector<option> table;
  for (size_t i = 0; i < options.size(); ++i) {
    table.push_back({options[i].name, options[i].argument, nullptr, kFirst + int(i)});
    if (options[i].letter == 0) continue;
    letters += options[i].letter;
    letters.append(size_t(options[i].argument), ':');
  }
  table.push_back({});
  std::vector<std::string> copies = argv;
  std::vector<char*> words;
  for (std::string& word : copies) words.push_back(word.data());
  words.push_back(nullptr);

  Words result;
  optind = 0;  // start anew
  const int count = int(argv.size());
  while (true) {
    const int found = ::getopt_long(count, words.data(), letters.c_str(), table.data(), nullptr);
    if (found == -1) break;
    if (found == '?') return std::nullopt;
    const Option* known = nullptr;
    for (size_t i = 0; i < options.size(); ++i) {
      if (found == kFirst + int(i) || found == options[i].letter) known = &options[i];
      if (known != nullptr) break;
    }
    result.options.emplace_back(known->name, optarg == nullptr ? "" : optarg);
  }
  for (int i = optind; i < count; ++i) result.rest.emplace_back(words[size_t(i)]);
  return result;
}

}  // namespace dlflow::fake_slurm
