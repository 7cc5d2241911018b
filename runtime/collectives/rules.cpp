#include "runtime/collectives/rules.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMax = SIZE_MAX;
constexpr std::string_view kUnits = "KMG";  // 1024, 1024^2, 1024^3 bytes

constexpr std::array<std::string_view, kAlgorithms.size()> kNames = {
    "shm", "hierarchical", "recursive_doubling", "rabenseifner", "ring", "tree", "direct", "mpi"};
static_assert(!kNames.back().empty(), "an algorithm has no name");

class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  Rules rules(std::string_view text) const {
    Rules rules;
    size_t next = 0;  // the first size without a rule
    for (const std::string& part : split(text, ';')) {
      rules.push_back(rule(part));
      if (rules.back().first_bytes > next) fail_uncovered(next);
      if (rules.back().last_bytes == kMax) return rules;
      next = std::max(next, rules.back().last_bytes + 1);
    }
    fail_uncovered(next);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Errc::InvalidInput, where_ + ": " + what);
  }

 private:
  [[noreturn]] void fail_uncovered(size_t bytes) const {
    fail("no rule for " + std::to_string(bytes) +
         " bytes; sizes must go from 0 to max without a gap: recursive_doubling:0-8K;ring:8K-max");
  }

  Rule rule(const std::string& text) const {
    const size_t colon = text.find(':'), dash = text.find('-', colon);
    if (colon == std::string::npos || dash == std::string::npos) {
      fail("'" + text + "' is not a rule; write ALGORITHM:FROM-TO, as in shm:8K-max");
    }
    const Rule rule = {algorithm(text.substr(0, colon)),
                       size(text.substr(colon + 1, dash - colon - 1)), size(text.substr(dash + 1))};
    if (rule.first_bytes > rule.last_bytes) fail("'" + text + "' ends before it begins");
    return rule;
  }

  Algorithm algorithm(const std::string& word) const {
    const auto found = std::ranges::find(kNames, word);
    if (found != kNames.end()) return kAlgorithms[size_t(found - kNames.begin())];
    const std::vector<std::string> names(kNames.begin(), kNames.end());
    fail("'" + word + "' is not an algorithm; there are " + join(names, ", ") +
         did_you_mean(word, names));
  }

  size_t size(const std::string& word) const {
    if (word == "max") return kMax;
    size_t number = 0;
    const char* const last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data(), last, number);
    const size_t unit = end + 1 == last ? kUnits.find(*end) : std::string_view::npos;
    const size_t bits = unit == std::string_view::npos ? 0 : 10 * (unit + 1);
    if (error != std::errc() || (end != last && bits == 0) || number > kMax >> bits) {
      fail("'" + word + "' is not a size; write 4096, 8K, 1M, 2G or max");
    }
    return number << bits;
  }

  const std::string& where_;
};

std::string size_text(size_t bytes) {
  if (bytes == kMax) return "max";
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  const std::string number = std::to_string(bytes);
  return unit == 0 ? number : number + kUnits[unit - 1];
}

std::string rules_text(const Rules& rules) {
  std::vector<std::string> parts;
  for (const Rule& rule : rules) {
    parts.push_back(std::string(name(rule.algorithm)) + ":" + size_text(rule.first_bytes) + "-" +
                    size_text(rule.last_bytes));
  }
  return join(parts, ";");
}

/// Returns "2x4" for "2x4 allreduce=...".
std::string_view shape_of(std::string_view line) { return line.substr(0, line.find(' ')); }

std::string_view without_comment(std::string_view line) {
  return trim(line.substr(0, line.find('#')));
}

}  // namespace

std::string_view name(Algorithm algorithm) { return kNames[size_t(algorithm)]; }

Algorithm choose(const Rules& rules, size_t bytes) {
  const auto rule = std::ranges::find_if(
      rules, [&](const Rule& r) { return r.first_bytes <= bytes && bytes <= r.last_bytes; });
  DLFLOW_CHECK(rule != rules.end());
  return rule->algorithm;
}

RuleSet parse_rules(std::string_view text, const std::string& where) {
  const Reader reader(where);
  RuleSet set;
  for (const std::string& word : split(trim(text), ' ')) {
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos || (key != "allreduce" && key != "between_nodes")) {
      reader.fail("'" + word + "' is neither allreduce=RULES nor between_nodes=RULES");
    }
    (key == "allreduce" ? set.allreduce : set.between_nodes) =
        reader.rules(std::string_view(word).substr(equals + 1));
  }
  return set;
}

std::string to_text(const RuleSet& rules) {
  std::string text = "allreduce=" + rules_text(rules.allreduce);
  if (!rules.between_nodes.empty()) text += " between_nodes=" + rules_text(rules.between_nodes);
  return text;
}

RuleSet rules_for_shape(std::string_view text, const std::string& shape,
                        const std::filesystem::path& path) {
  size_t number = 0;
  for (const std::string& whole : split(text, '\n')) {
    ++number;
    const std::string_view line = without_comment(whole);
    if (shape_of(line) != shape) continue;
    return parse_rules(line.substr(shape.size()), path.string() + ":" + std::to_string(number));
  }
  return {};
}

void store_rules(const std::filesystem::path& path, const std::string& shape, const RuleSet& rules,
                 const std::string& comment) {
  std::string text;
  for (const std::string& line : split(read_file_if_exists(path).value_or(""), '\n')) {
    if (!line.empty() && shape_of(without_comment(line)) != shape) text += line + "\n";
  }
  text += shape + " " + to_text(rules) + "  # " + comment + "\n";
  if (path.has_parent_path()) make_output_folder(path.parent_path());
  write_output(path, text);
}

}  // namespace dlflow::runtime
