#include "engine/model/expression_syntax.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "base/text.h"

namespace dlflow {
namespace {

constexpr std::string_view kBegin = "${{";
constexpr std::string_view kEscapedBegin = "$${{";
constexpr int kMaxNesting = 32;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

struct Token {
  enum class Kind { Name, Number, Text, Symbol, End };
  Kind kind = Kind::End;
  std::string_view source;
  size_t offset = 0;
  Json value;  // the value of a Number or a Text
};

/// Parses one expression, from its "${{" to its "}}". Throws SyntaxError; offsets count from "${{".
class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, size_t number, std::vector<ParsedReference>& references)
      : text_(text), number_(number), references_(references), position_(kBegin.size()) {
    advance();
  }

  Expression parse() {
    if (is_symbol("}}")) fail("an expression is missing between '${{' and '}}'");
    Expression root = parse_or();
    if (!is_symbol("}}")) fail_unexpected();
    return root;
  }

  /// The length of the whole expression, once it is parsed.
  size_t length() const { return position_; }

 private:
  [[noreturn]] void fail_at(size_t offset, const std::string& message) const {
    throw SyntaxError{number_, offset, message};
  }
  [[noreturn]] void fail(const std::string& message) const { fail_at(token_.offset, message); }

  [[noreturn]] void fail_unexpected() const {
    if (token_.kind == Token::Kind::End) fail_at(0, "'${{' without its '}}'; write ${{ NAME }}");
    constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kHints = {{
        {"=", "; equality is written =="},
        {"\"", "; text is written in single quotes, 'like this'"},
        {"%", "; the remainder of a / b is a - a // b * b"},
        {"and", "; write &&"},
        {"or", "; write ||"},
        {"[", "; an element of a list is at(LIST, 0)"},
        {"}}", "; a value or a ')' is missing before it"},
    }};
    const auto* const hint = std::ranges::find(
        kHints, token_.source, &std::pair<std::string_view, std::string_view>::first);
    fail("unexpected '" + std::string(token_.source) + "' in an expression" +
         (hint == kHints.end() ? "" : std::string(hint->second)));
  }

  bool is_symbol(std::string_view symbol) const {
    return token_.kind == Token::Kind::Symbol && token_.source == symbol;
  }

  bool accept(std::string_view symbol) {
    if (!is_symbol(symbol)) return false;
    advance();
    return true;
  }

  void expect(std::string_view symbol) {
    if (!accept(symbol)) fail_unexpected();
  }

  void advance() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
    const bool behind_operand = ends_operand();
    token_ = Token{Token::Kind::End, {}, position_, nullptr};
    if (position_ == text_.size()) return;
    const char c = text_[position_];
    const char next = position_ + 1 < text_.size() ? text_[position_ + 1] : '\0';
    if (is_letter(c)) {
      read_name();
    } else if (is_digit(c) || (c == '-' && is_digit(next) && !behind_operand)) {
      read_number();
    } else if (c == '\'') {
      read_text();
    } else {
      read_symbol();
    }
  }

  /// Whether a `-` after the current token is a subtraction.
  bool ends_operand() const {
    return token_.kind == Token::Kind::Name || token_.kind == Token::Kind::Number ||
           token_.kind == Token::Kind::Text || is_symbol(")");
  }

  void take(Token::Kind kind, size_t length) {
    token_.kind = kind;
    token_.source = text_.substr(position_, length);
    position_ += length;
  }

  void read_name() {
    size_t end = position_;
    while (end < text_.size() &&
           (is_letter(text_[end]) || is_digit(text_[end]) || text_[end] == '-')) {
      ++end;
    }
    take(Token::Kind::Name, end - position_);
  }

  void read_number() {
    const char* const begin = text_.data() + position_;
    const char* const end = text_.data() + text_.size();
    int64_t integer = 0;
    double real = 0;
    const auto [integer_end, integer_error] = std::from_chars(begin, end, integer);
    const auto [real_end, real_error] = std::from_chars(begin, end, real);
    const std::errc error = integer_end == real_end ? integer_error : real_error;
    if (error != std::errc()) fail("this number is too large or too small");
    token_.value = integer_end == real_end ? Json(integer) : Json(real);
    take(Token::Kind::Number, size_t(real_end - begin));
  }

  void read_text() {
    std::string value;
    size_t end = position_ + 1;
    while (true) {
      if (end >= text_.size()) fail_at(position_, "a text that is opened with ' is never closed");
      if (text_[end] == '\'' && text_.substr(end, 2) != "''") break;
      value += text_[end];
      end += text_[end] == '\'' ? 2 : 1;
    }
    token_.value = std::move(value);
    take(Token::Kind::Text, end + 1 - position_);
  }

  void read_symbol() {
    constexpr std::array<std::string_view, 8> kLong = {
        "}}", "==", "!=", "<=", ">=", "&&", "||", "//"};
    const std::string_view two = text_.substr(position_, 2);
    if (std::find(kLong.begin(), kLong.end(), two) != kLong.end()) {
      take(Token::Kind::Symbol, 2);
    } else {
      size_t length = 1;  // of the whole UTF-8 character, for the message
      while (position_ + length < text_.size() && (text_[position_ + length] & 0xC0) == 0x80)
        ++length;
      take(Token::Kind::Symbol, length);
    }
  }

  Expression parse_or() {
    if (++nesting_ > kMaxNesting) fail("the expression is nested too deeply");
    Expression result = parse_chain("||", Operator::Or, &ExpressionParser::parse_and);
    --nesting_;
    return result;
  }

  Expression parse_and() {
    return parse_chain("&&", Operator::And, &ExpressionParser::parse_comparison);
  }

  Expression parse_chain(std::string_view symbol, Operator operation,
                         Expression (ExpressionParser::*operand)()) {
    Expression first = (this->*operand)();
    if (!is_symbol(symbol)) return first;
    Expression chain = operation_of(operation, std::move(first));
    while (accept(symbol)) chain.operands.push_back((this->*operand)());
    return chain;
  }

  static Expression operation_of(Operator operation, Expression first) {
    Expression result;
    result.kind = Expression::Kind::Operation;
    result.operation = operation;
    result.operands.push_back(std::move(first));
    return result;
  }

  std::optional<Operator> accept_comparison() {
    constexpr std::array<std::pair<std::string_view, Operator>, 6> kComparisons = {
        {{"==", Operator::Equal},
         {"!=", Operator::NotEqual},
         {"<", Operator::Less},
         {"<=", Operator::LessEqual},
         {">", Operator::Greater},
         {">=", Operator::GreaterEqual}}};
    for (const auto& [symbol, operation] : kComparisons) {
      if (accept(symbol)) return operation;
    }
    return std::nullopt;
  }

  Expression parse_comparison() {
    Expression left = parse_sum();
    const std::optional<Operator> operation = accept_comparison();
    if (!operation) return left;
    Expression result = operation_of(*operation, std::move(left));
    result.operands.push_back(parse_sum());
    const size_t offset = token_.offset;
    if (accept_comparison()) fail_at(offset, "comparisons cannot be chained; join them with &&");
    return result;
  }

  using Symbols = std::span<const std::pair<std::string_view, Arithmetic>>;

  Expression parse_sum() {
    constexpr std::array<std::pair<std::string_view, Arithmetic>, 2> kSums = {
        {{"+", Arithmetic::Add}, {"-", Arithmetic::Subtract}}};
    return parse_arithmetic(kSums, &ExpressionParser::parse_product);
  }

  Expression parse_product() {
    constexpr std::array<std::pair<std::string_view, Arithmetic>, 3> kProducts = {
        {{"*", Arithmetic::Multiply}, {"/", Arithmetic::Divide}, {"//", Arithmetic::FloorDivide}}};
    return parse_arithmetic(kProducts, &ExpressionParser::parse_unary);
  }

  /// Makes one node for any number of operands, since a chain may be as long as the file.
  Expression parse_arithmetic(Symbols symbols, Expression (ExpressionParser::*operand)()) {
    Expression first = (this->*operand)();
    Expression chain;
    chain.kind = Expression::Kind::Arithmetic;
    while (const auto operation = accept_one_of(symbols)) {
      if (chain.operands.empty()) chain.operands.push_back(std::move(first));
      chain.arithmetic.push_back(*operation);
      chain.operands.push_back((this->*operand)());
    }
    return chain.operands.empty() ? first : chain;
  }

  std::optional<Arithmetic> accept_one_of(Symbols symbols) {
    for (const auto& [symbol, operation] : symbols) {
      if (accept(symbol)) return operation;
    }
    return std::nullopt;
  }

  Expression parse_unary() {
    const bool is_minus = is_symbol("-");
    if (!is_minus && !is_symbol("!")) return parse_primary();
    if (++nesting_ > kMaxNesting) fail("the expression is nested too deeply");
    advance();
    Expression result;
    result.kind = is_minus ? Expression::Kind::Arithmetic : Expression::Kind::Not;
    if (is_minus) {
      result.arithmetic.push_back(Arithmetic::Subtract);
      result.operands.emplace_back().literal = 0;
    }
    result.operands.push_back(parse_unary());
    --nesting_;
    return result;
  }

  Expression parse_primary() {
    if (accept("(")) {
      Expression inner = parse_or();
      expect(")");
      return inner;
    }
    if (token_.kind == Token::Kind::Number || token_.kind == Token::Kind::Text) {
      return literal(std::move(token_.value));
    }
    if (token_.kind != Token::Kind::Name) fail_unexpected();
    if (token_.source == "true") return literal(true);
    if (token_.source == "false") return literal(false);
    if (token_.source == "null") return literal(nullptr);
    const Token name = token_;
    advance();
    return is_symbol("(") ? parse_call(name) : parse_reference(name);
  }

  Expression literal(Json value) {
    Expression result;
    result.literal = std::move(value);
    advance();
    return result;
  }

  Expression parse_call(const Token& name) {
    Expression call;
    call.kind = Expression::Kind::Call;
    call.function = find_function(name);
    expect("(");
    if (!is_symbol(")")) {
      do {
        call.operands.push_back(parse_or());
      } while (accept(","));
    }
    expect(")");
    const size_t given = call.operands.size();
    if (given < call.function->min_arguments || given > call.function->max_arguments) {
      fail_at(name.offset, std::string(call.function->usage) + " cannot be called with " +
                               std::to_string(given) + (given == 1 ? " argument" : " arguments"));
    }
    return call;
  }

  const Function* find_function(const Token& name) const {
    std::vector<std::string> names;
    for (const Function& function : expression_functions()) {
      if (function.name == name.source) return &function;
      names.emplace_back(function.name);
    }
    std::string advice = did_you_mean(name.source, names);
    if (advice.empty()) advice = "; known: " + join(names, ", ");
    fail_at(name.offset, "unknown function '" + std::string(name.source) + "'" + advice);
  }

  Expression parse_reference(const Token& name) {
    std::vector<std::string> path = {std::string(name.source)};
    std::vector<size_t> offsets = {name.offset};
    while (accept(".")) {
      if (token_.kind != Token::Kind::Name) fail_unexpected();
      path.emplace_back(token_.source);
      offsets.push_back(token_.offset);
      advance();
    }
    check_reference(path, offsets);
    references_.push_back({std::move(path), number_, name.offset});
    Expression result;
    result.kind = Expression::Kind::Reference;
    result.reference = references_.size() - 1;
    return result;
  }

  void check_reference(const std::vector<std::string>& path,
                       const std::vector<size_t>& offsets) const {
    static const std::vector<std::string> scopes = {"params", "matrix", "steps", "run"};
    static const std::vector<std::string> step_parts = {"outputs", "metrics", "matrix"};
    static const std::vector<std::string> run_parts = {"id", "directory"};
    const std::string& scope = path[0];
    if (std::find(scopes.begin(), scopes.end(), scope) == scopes.end()) {
      std::string advice = did_you_mean(scope, scopes);
      if (scope == "secrets" || scope == "env") {
        advice = "; the program finds it in its environment, as $" +
                 (path.size() > 1 ? path[1] : "NAME");
      }
      if (advice.empty())
        advice = "; names begin with params., matrix., steps. or run., and text is quoted: 'text'";
      fail_at(offsets[0], "unknown name '" + scope + "' in an expression" + advice);
    }
    const std::string whole = join(path, ".");
    const auto require_part = [&](size_t index, const std::vector<std::string>& known) {
      if (path.size() <= index) return;
      if (std::find(known.begin(), known.end(), path[index]) != known.end()) return;
      fail_at(offsets[index], "unknown name '" + path[index] + "' in " + whole +
                                  did_you_mean_or_list(path[index], known));
    };
    if (scope == "steps") require_part(2, step_parts);
    if (scope == "run") require_part(1, run_parts);
    const bool complete = scope == "params" || scope == "matrix" ? path.size() >= 2
                          : scope == "steps" && path.size() > 4  ? path[2] == "matrix"
                          : scope == "steps"                     ? path.size() == 4
                                                                 : path.size() == 2;
    if (complete) return;
    const std::string form = scope == "steps" ? "steps.NAME.outputs.KEY, steps.NAME.metrics.KEY or "
                                                "steps.NAME.matrix.AXIS"
                             : scope == "matrix" ? "matrix.AXIS"
                             : scope == "run"    ? "run.id or run.directory"
                                                 : "params.NAME";
    fail_at(offsets[0], "'" + whole + "' is not a complete reference; write " + form);
  }

  std::string_view text_;
  size_t number_;
  std::vector<ParsedReference>& references_;
  size_t position_;
  Token token_;
  int nesting_ = 0;
};

/// Finds the next "${{" or "$${{" of `text` from `begin` on: its offset, and whether it is escaped.
std::pair<size_t, bool> next_opening(std::string_view text, size_t begin) {
  const size_t at = text.find(kBegin, begin);
  const bool escaped = at != text.npos && at > begin && text[at - 1] == '$';
  return {escaped ? at - 1 : at, escaped};
}

ParsedText parse_parts(std::string_view text) {
  ParsedText parsed;
  std::string literal;
  size_t number = 0;
  const auto end_literal = [&] {
    if (literal.empty()) return;
    TextPart part;
    part.text = std::exchange(literal, {});
    parsed.parts.push_back(std::move(part));
  };
  for (size_t position = 0; position < text.size();) {
    const auto [opening, escaped] = next_opening(text, position);
    literal += text.substr(position, opening - position);
    if (opening == text.npos) break;
    if (escaped) {
      literal += kBegin;
      position = opening + kEscapedBegin.size();
      continue;
    }
    end_literal();
    TextPart part;
    part.is_expression = true;
    part.first_reference = parsed.references.size();
    ExpressionParser parser(text.substr(opening), number++, parsed.references);
    part.expression = parser.parse();
    part.end_reference = parsed.references.size();
    part.text = text.substr(opening, parser.length());
    position = opening + parser.length();
    parsed.parts.push_back(std::move(part));
  }
  end_literal();
  return parsed;
}

}  // namespace

bool holds_expression(std::string_view text) { return text.find(kBegin) != text.npos; }

std::variant<ParsedText, SyntaxError> parse_text(std::string_view text) {
  try {
    return parse_parts(text);
  } catch (SyntaxError& error) {
    return std::move(error);
  }
}

std::string escape_expressions(std::string_view text) {
  std::string escaped;
  for (size_t position = 0; position < text.size();) {
    const size_t at = text.find(kBegin, position);
    escaped += text.substr(position, at - position);
    if (at == text.npos) break;
    escaped += kEscapedBegin;
    position = at + kBegin.size();
  }
  return escaped;
}

size_t find_expression(std::string_view text, size_t index) {
  for (size_t position = 0;;) {
    const auto [opening, escaped] = next_opening(text, position);
    if (opening == text.npos) return opening;
    if (!escaped && index-- == 0) return opening;
    position = opening + (escaped ? kEscapedBegin : kBegin).size();
  }
}

}  // namespace dlflow
