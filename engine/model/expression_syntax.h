#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "engine/model/expression_functions.h"

/// Text with `${{ … }}` in it -> a syntax tree. The grammar, loosest binding first:
///
///   expression = conjunction ("||" conjunction)*
///   conjunction = comparison ("&&" comparison)*
///   comparison = sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum)?
///   sum = product (("+" | "-") product)*
///   product = unary (("*" | "/" | "//") unary)*
///   unary = ("!" | "-") unary | primary
///   primary = "(" expression ")" | literal | function "(" [expression ("," expression)*] ")"
///           | reference
///   reference = "params" ("." name)+ | "matrix" ("." name)+ | "run.id" | "run.directory"
///             | "steps." name "." ("outputs" | "metrics") "." name
///             | "steps." name ".matrix" ("." name)+
///   literal = number | 'text, with '' for a quote' | true | false | null
///
/// A name may hold "-": `params.a-1` is the parameter a-1, `params.a - 1` a difference.
namespace dlflow {

enum class Operator { Or, And, Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };

struct Expression {
  enum class Kind { Literal, Reference, Call, Not, Operation, Arithmetic };

  Kind kind = Kind::Literal;
  Json literal;
  size_t reference = 0;                ///< index in ParsedText::references
  const Function* function = nullptr;  ///< of a Call
  Operator operation = Operator::Or;   ///< of an Operation; Or and And take two operands or more
  /// The operators from left to right, one fewer than operands.
  std::vector<Arithmetic> arithmetic;
  std::vector<Expression> operands;  ///< also a Call's arguments
};

/// A reference with its position: the expression's index in the text, the byte in the expression.
struct ParsedReference {
  std::vector<std::string> path;
  size_t expression = 0;
  size_t offset = 0;
};

/// A part of a text: an expression, or the text between two of them.
struct TextPart {
  std::string text;  ///< the text, unescaped, or the source of the expression, "${{ … }}"
  bool is_expression = false;
  Expression expression;
  size_t first_reference = 0;  ///< its references are [first_reference, end_reference)
  size_t end_reference = 0;
};

struct ParsedText {
  std::vector<TextPart> parts;
  std::vector<ParsedReference> references;
};

struct SyntaxError {
  size_t expression = 0;  ///< as in ParsedReference
  size_t offset = 0;
  std::string message;
};

/// Whether `text` holds an expression or an escaped one.
bool holds_expression(std::string_view text);

std::variant<ParsedText, SyntaxError> parse_text(std::string_view text);

/// Escapes `text` so that parse_text() returns it as one literal.
std::string escape_expressions(std::string_view text);

/// The offset of the `index`-th unescaped `${{` of `text`, or npos.
size_t find_expression(std::string_view text, size_t index);

}  // namespace dlflow
