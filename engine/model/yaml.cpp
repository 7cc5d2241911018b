#include "engine/model/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "engine/model/mistakes.h"

namespace dlflow {
namespace {

std::string_view line_up_to(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t newline = before.rfind('\n');
  return newline == before.npos ? before : before.substr(newline + 1);
}

/// Returns the expression at the beginning of `text`, "${{ params.ranks }}", if it is on one line.
std::string expression_at(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t end = line.find("}}");
  return end == line.npos ? "${{ … }}" : std::string(line.substr(0, end + 2));
}

/// The offset of a tab in the indentation of the line around `offset`, or npos.
size_t find_tab_indentation(std::string_view text, size_t offset) {
  const size_t begin = offset - line_up_to(text, offset).size();
  const size_t first = std::min(text.find_first_not_of(" \t", begin), text.size());
  return text.substr(0, first).find('\t', begin);
}

std::string in_our_words(const std::string& message) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kWords = {{
      {"illegal map value",
       "unexpected ':'; check the indentation, and quote text that contains ': '"},
      {"end of map flow not found",
       "expected ',' or '}' here; check the brackets, and write a space after each ':'"},
      {"end of sequence flow not found", "expected ',' or ']' here; check the brackets and quotes"},
      {"end of map not found", "expected a key; the keys of one mapping begin in the same column"},
      {"end of sequence not found",
       "expected '- '; the items of one list begin in the same column"},
      {"illegal EOF in scalar", "a quote is never closed"},
      {"unknown token", "text cannot begin with this character; quote it"},
      {"illegal flow end",
       "this bracket does not close the last one that was opened; close each [ by ] and { by }"},
      {"unexpected character in block scalar",
       "text that begins with > or | must be quoted: write '>= 0.9'"},
      {"the referenced anchor is not defined",
       "no value above has this name; write &NAME before the value that *NAME repeats"},
  }};
  for (const auto& [theirs, ours] : kWords) {
    if (message.starts_with(theirs)) return std::string(ours);
  }
  return message;
}

/// Adds the mistake that made yaml-cpp stop at `offset` with `message`.
void add_syntax_error(Mistakes& mistakes, size_t offset, const std::string& message) {
  const std::string_view text = mistakes.text();
  offset = std::min(offset, text.size());
  if (offset > 0 && text[offset - 1] == '$' && text.substr(offset).starts_with("{{")) {
    mistakes.add(mistakes.location_of(offset - 1),
                 "an expression inside { } or [ ] must be quoted: write \"" +
                     expression_at(text.substr(offset - 1)) + "\"");
    return;
  }
  const std::string_view line = line_up_to(text, offset);
  if (const size_t opening = line.find("${{");
      opening != line.npos && message.starts_with("illegal map value")) {
    mistakes.add(mistakes.location_of(offset - line.size() + opening),
                 "an expression with ': ' in it must be quoted, with \" around the whole value");
    return;
  }
  if (const size_t tab = find_tab_indentation(text, offset); tab != text.npos) {
    mistakes.add(mistakes.location_of(tab),
                 "a tab in the indentation; YAML is indented with spaces");
    return;
  }
  mistakes.add(mistakes.location_of(offset), "not valid YAML: " + in_our_words(message));
}

/// Whether the quoted scalar at `offset` lacks its closing quote. Its properties, such as an
/// anchor, may come first.
bool has_unclosed_quote(std::string_view text, size_t offset) {
  while (offset < text.size() && (text[offset] == '&' || text[offset] == '!')) {
    offset = std::min(text.find_first_of(" \t\r\n", offset), text.size());
    offset = std::min(text.find_first_not_of(" \t\r\n", offset), text.size());
  }
  if (offset >= text.size() || (text[offset] != '"' && text[offset] != '\'')) return false;
  const char quote = text[offset];
  for (size_t i = offset + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || text.substr(i + 1, 1) != "'") return false;
      ++i;
    }
  }
  return true;
}

/// Thrown to stop reading, after the reason was added to the mistakes.
struct Stop {};

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::optional<int64_t> parse_all(std::string_view digits, int base) {
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

/// Follows YAML 1.2's core schema, except that infinity, NaN and integers beyond 64 bits stay text:
/// JSON has none of them, and rounding would change the integers.
Json plain_scalar(const std::string& text) {
  if (is_one_of(text, {"true", "True", "TRUE"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE"})) return false;
  std::string_view number = text;
  for (const auto& [prefix, base] : {std::pair("0x", 16), std::pair("0o", 8)}) {
    if (!number.starts_with(prefix) || number.starts_with(std::string(prefix) + "-")) continue;
    if (const auto value = parse_all(number.substr(2), base)) return *value;
    return text;
  }
  if (number.starts_with('+') && !number.starts_with("+-")) number.remove_prefix(1);
  const std::string_view digits = number.starts_with('-') ? number.substr(1) : number;
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != digits.npos) return text;
  if (const auto value = number_from<int64_t>(number)) return *value;
  if (digits.find_first_not_of("0123456789") == digits.npos) return text;
  if (const auto value = number_from<double>(number)) return *value;
  return text;
}

/// Builds the tree from yaml-cpp's events. yaml-cpp's own tree loses repeated keys, and a small
/// file of aliases can make it large.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(Mistakes& mistakes, const YamlLimits& limits)
      : mistakes_(mistakes), limits_(limits) {}

  YamlPointer root() const { return root_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(has_document_, true)) {
      stop_at(mark, "a second YAML document begins here; a file holds one");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    begin(YamlNode::Kind::Scalar, mark, anchor);
    end();
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (value.find('\0') != std::string::npos) {
      stop_at(mark, "a zero byte (\\0) cannot be passed to a program; remove it");
    }
    if (wants_key()) return set_key(value, mark);
    const bool quoted = is_one_of(tag, {"!", "tag:yaml.org,2002:str"});
    if (!quoted) check_tag(tag, mark);
    if (tag == "!") check_closed(mark);
    YamlNode& node = begin(YamlNode::Kind::Scalar, mark, anchor);
    node.scalar = quoted ? Json(value) : plain_scalar(value);
    if (node.scalar.is_number() && node.scalar.dump() != value) node.written = value;
    end();
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_tag(tag, mark);
    begin(YamlNode::Kind::List, mark, anchor);
  }
  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_tag(tag, mark);
    begin(YamlNode::Kind::Map, mark, anchor);
  }
  void OnMapEnd() override { end(); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) refuse_key(mark);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      stop_at(mark, "this alias stands inside the value that it repeats");
    count(found->second.nodes, mark);
    check_depth(open_.size() + found->second.height, mark);
    attach(found->second);
  }

 private:
  static constexpr const char* kMergeKey = "<<";

  struct Measured {
    YamlPointer node;
    size_t nodes = 1;  // including all nodes below
    size_t height = 1;
  };

  /// A value that is being read.
  struct Open {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    size_t nodes = 1;
    size_t height = 1;
    bool has_key = false;  // a map's next value belongs to `key`
    std::string key;
    Location key_location;
    std::unordered_map<std::string, int> lines;  // of the keys so far
  };

  static Location place(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

  bool wants_key() const {
    return !open_.empty() && open_.back().node->kind == YamlNode::Kind::Map &&
           !open_.back().has_key;
  }

  [[noreturn]] void stop_at(const YAML::Mark& mark, const std::string& mistake) {
    mistakes_.add(place(mark), mistake);
    throw Stop{};
  }

  [[noreturn]] void refuse_key(const YAML::Mark& mark) {
    stop_at(mark, "a key must be a word, or a bracket is never closed");
  }

  void set_key(const std::string& key, const YAML::Mark& mark) {
    open_.back().key = key;
    open_.back().key_location = place(mark);
    open_.back().has_key = true;
  }

  void check_tag(const std::string& tag, const YAML::Mark& mark) {
    if (is_one_of(tag, {"", "?", "!", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})) return;
    mistakes_.add(place(mark), "the YAML tag '" + tag + "' has no meaning here; remove it");
  }

  /// yaml-cpp accepts the end of the file as a closing quote.
  void check_closed(const YAML::Mark& mark) {
    if (has_unclosed_quote(mistakes_.text(), size_t(mark.pos))) {
      stop_at(mark, "this quote is never closed");
    }
  }

  void count(size_t nodes, const YAML::Mark& mark) {
    num_nodes_ += nodes;
    if (num_nodes_ <= limits_.max_nodes) return;
    stop_at(mark, "the file has more than " + std::to_string(limits_.max_nodes) +
                      " values, aliases counted each time; it is too large to read");
  }

  void check_depth(size_t depth, const YAML::Mark& mark) {
    if (depth <= limits_.max_depth) return;
    stop_at(mark, "values are nested deeper than " + std::to_string(limits_.max_depth) + " levels");
  }

  YamlNode& begin(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (wants_key()) refuse_key(mark);
    count(1, mark);
    check_depth(open_.size() + 1, mark);
    Open open;
    open.node = std::make_shared<YamlNode>();
    open.node->kind = kind;
    open.node->location = place(mark);
    open.node->offset = size_t(mark.pos);
    open.anchor = anchor;
    open_.push_back(std::move(open));
    return *open_.back().node;
  }

  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (done.lines.contains(kMergeKey)) merge(*done.node);
    const Measured measured{std::move(done.node), done.nodes, done.height};
    if (done.anchor != YAML::NullAnchor) anchors_[done.anchor] = measured;
    attach(measured);
  }

  /// Merges `<<: *base`, or a list of them, into the map: adds the keys of `base` that the map
  /// lacks. The map's own keys take precedence, and earlier list entries precede later ones.
  void merge(YamlNode& map) {
    std::vector<YamlEntry> entries;
    std::vector<YamlEntry> merges;
    for (YamlEntry& entry : map.entries) {
      (entry.key == kMergeKey ? merges : entries).push_back(std::move(entry));
    }
    map.entries = std::move(entries);
    std::unordered_set<std::string> known;
    for (const YamlEntry& entry : map.entries) known.insert(entry.key);
    for (const YamlEntry& merge : merges) {
      if (merge.first_line > 0) {
        mistakes_.add(merge.location, "key '<<' occurs twice; write << : [*first, *second]");
      }
      if (merge.value->kind != YamlNode::Kind::List) {
        add_missing(map, *merge.value, known);
        continue;
      }
      for (const YamlEntry& one : merge.value->entries) add_missing(map, *one.value, known);
    }
  }

  /// \param known  the keys of `map`; gets the added ones
  void add_missing(YamlNode& map, const YamlNode& source, std::unordered_set<std::string>& known) {
    if (source.kind != YamlNode::Kind::Map) {
      mistakes_.add(source.location,
                    "<< takes a mapping, as an alias *NAME, or a list of them: its keys are added");
      return;
    }
    for (const YamlEntry& entry : source.entries) {
      if (known.insert(entry.key).second) map.entries.push_back(entry);
    }
  }

  void attach(const Measured& value) {
    if (open_.empty()) {
      root_ = value.node;
      return;
    }
    Open& parent = open_.back();
    parent.nodes += value.nodes;
    parent.height = std::max(parent.height, value.height + 1);
    YamlEntry entry{{}, value.node->location, value.node};
    if (parent.node->kind == YamlNode::Kind::Map) {
      entry.location = parent.key_location;
      const auto [known, is_new] = parent.lines.emplace(parent.key, entry.location.line);
      if (!is_new) entry.first_line = known->second;
      entry.key = std::move(parent.key);
      entry.value = placed(value.node, entry.location);
      parent.has_key = false;
    }
    parent.node->entries.push_back(std::move(entry));
  }

  /// yaml-cpp locates an omitted value at the token after it; its key is the better location.
  static YamlPointer placed(const YamlPointer& value, Location key) {
    const bool left_out = value->kind == YamlNode::Kind::Scalar && value->scalar.is_null() &&
                          value->location.line != key.line;
    if (!left_out) return value;
    auto moved = std::make_shared<YamlNode>(*value);
    moved->location = key;
    return moved;
  }

  Mistakes& mistakes_;
  const YamlLimits& limits_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Measured> anchors_;
  YamlPointer root_;
  size_t num_nodes_ = 0;
  bool has_document_ = false;
};

/// Adds mistakes for invalid UTF-8 and control characters. Returns false if there are any.
bool check_characters(Mistakes& mistakes) {
  const std::string_view text = mistakes.text();
  const auto hex = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return "0x" + hexadecimal({&byte, 1});
  };
  const size_t bad = find_invalid_utf8(text);
  if (bad != text.npos) {
    mistakes.add(mistakes.location_of(bad),
                 "byte " + hex(text[bad]) + " is not UTF-8; save the file as UTF-8");
    return false;
  }
  const auto control = std::find_if(text.begin(), text.end(), [](unsigned char c) {
    return (c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  });
  if (control == text.end()) return true;
  mistakes.add(mistakes.location_of(size_t(control - text.begin())),
               "a control character (" + hex(*control) + ") is not allowed in YAML; remove it");
  return false;
}

}  // namespace

YamlPointer read_yaml(Mistakes& mistakes, const YamlLimits& limits) {
  if (!check_characters(mistakes)) return nullptr;
  TreeBuilder builder(mistakes, limits);
  try {
    std::istringstream stream{std::string(mistakes.text())};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    add_syntax_error(mistakes, error.mark.pos < 0 ? 0 : size_t(error.mark.pos), error.msg);
    return nullptr;
  } catch (const Stop&) {
    return builder.root();
  }
  if (!builder.root() ||
      (builder.root()->kind == YamlNode::Kind::Scalar && builder.root()->scalar.is_null())) {
    mistakes.add({1, 1}, "the file is empty, or has nothing but comments");
    return nullptr;
  }
  return builder.root();
}

Json to_json(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::Scalar) return node.scalar;
  Json json = node.kind == YamlNode::Kind::List ? Json::array() : Json::object();
  for (const YamlEntry& entry : node.entries) {
    if (node.kind == YamlNode::Kind::List) {
      json.push_back(to_json(*entry.value));
    } else {
      json.emplace(entry.key, to_json(*entry.value));
    }
  }
  return json;
}

YamlPointer to_yaml(const Json& value, Location location) {
  auto node = std::make_shared<YamlNode>();
  node->location = location;
  if (!value.is_structured()) {
    node->scalar = value;
    return node;
  }
  node->kind = value.is_array() ? YamlNode::Kind::List : YamlNode::Kind::Map;
  for (const auto& [key, element] : value.items()) {
    node->entries.push_back({value.is_object() ? key : "", location, to_yaml(element, location)});
  }
  return node;
}

const YamlEntry* find_entry(const YamlNode& map, std::string_view key) {
  const auto found = std::ranges::find(map.entries, key, &YamlEntry::key);
  return found == map.entries.end() ? nullptr : &*found;
}

}  // namespace dlflow
