#include "engine/model/expression.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "engine/model/expression_syntax.h"
#include "engine/model/shape.h"

namespace dlflow {
namespace {

/// A value of a Template, compiled for evaluation.
struct Node {
  Json constant;                  ///< the value itself, if it holds no expressions
  std::vector<TextPart> text;     ///< a string with expressions
  std::vector<Node> elements;     ///< a list or an object with expressions in it
  std::vector<std::string> keys;  ///< an object's keys, one for each element
};

bool is_known(const Reference& reference, const Context& context) {
  const std::string& scope = reference.path[0];
  if (scope == "params") return context.params != nullptr;
  if (scope == "matrix") return context.matrix != nullptr;
  if (scope == "run") return context.run != nullptr;
  return bool(context.steps);
}

Json value_of(const Reference& reference, const Context& context) {
  if (!is_known(reference, context)) {
    throw Error(Errc::InvalidInput, to_string(reference) + " has no value here");
  }
  const std::string& scope = reference.path[0];
  if (scope == "steps") return context.steps(reference);
  const Json* value = scope == "params"   ? context.params
                      : scope == "matrix" ? context.matrix
                                          : context.run;
  return value_in(*value, reference, 1);
}

bool truth(const Json& value, std::string_view where) {
  if (value.is_boolean()) return value.get<bool>();
  throw Error(Errc::InvalidInput,
              std::string(where) + " takes true or false, not " + describe(value));
}

bool is_less(const Json& left, const Json& right) {
  const bool numbers = left.is_number() && right.is_number();
  if (!numbers && !(left.is_string() && right.is_string())) {
    throw Error(Errc::InvalidInput, "two numbers or two strings can be compared, not " +
                                        describe(left) + " and " + describe(right));
  }
  return left < right;
}

/// Returns compute(). Adds the expression to the message of an Error that it throws.
template <typename Compute>
auto naming(const TextPart& part, Compute compute) {
  try {
    return compute();
  } catch (const Error& error) {
    throw Error(error.code(), part.text + ": " + error.what());
  }
}

/// Evaluates the expressions of one Template in one Context.
class Evaluator {
 public:
  Evaluator(const std::vector<Reference>& references, const Context& context, bool keep_unknown)
      : references_(references), context_(context), keep_unknown_(keep_unknown) {}

  Json evaluate(const Node& node) const {
    if (!node.text.empty()) return evaluate(node.text);
    if (!node.keys.empty()) {
      Json object = Json::object();
      for (size_t i = 0; i < node.keys.size(); ++i) {
        object.emplace(node.keys[i], evaluate(node.elements[i]));
      }
      return object;
    }
    if (node.elements.empty()) return node.constant;
    Json list = Json::array();
    for (const Node& element : node.elements) list.push_back(evaluate(element));
    return list;
  }

  /// Adds the references of the expressions that remain unevaluated.
  void collect_left(const Node& node, std::vector<Reference>& left) const {
    for (const TextPart& part : node.text) {
      if (!part.is_expression || !stays(part)) continue;
      left.insert(left.end(), references_.begin() + long(part.first_reference),
                  references_.begin() + long(part.end_reference));
    }
    for (const Node& element : node.elements) collect_left(element, left);
  }

 private:
  Json evaluate(const std::vector<TextPart>& parts) const {
    if (parts.size() == 1 && parts[0].is_expression) {
      if (stays(parts[0])) return parts[0].text;
      return keep_unknown_ ? escaped(evaluate(parts[0])) : evaluate(parts[0]);
    }
    std::string text;
    for (const TextPart& part : parts) {
      if (part.is_expression && stays(part)) {
        text += part.text;
      } else {
        const std::string known = part.is_expression ? text_of(part) : part.text;
        text += keep_unknown_ ? escape_expressions(known) : known;
      }
    }
    return text;
  }

  bool stays(const TextPart& part) const {
    const auto unknown = [this](const Reference& r) { return !is_known(r, context_); };
    return keep_unknown_ && std::any_of(references_.begin() + long(part.first_reference),
                                        references_.begin() + long(part.end_reference), unknown);
  }

  static Json escaped(Json value) {
    if (value.is_string()) return escape_expressions(value.get_ref<const std::string&>());
    if (value.is_structured()) {
      for (Json& element : value) element = escaped(std::move(element));
    }
    return value;
  }

  Json evaluate(const TextPart& part) const {
    return naming(part, [&] { return evaluate(part.expression); });
  }

  std::string text_of(const TextPart& part) const {
    return naming(part, [&] { return dlflow::text_of(evaluate(part.expression)); });
  }

  Json evaluate(const Expression& expression) const {
    switch (expression.kind) {
      case Expression::Kind::Literal:
        return expression.literal;
      case Expression::Kind::Reference:
        return value_of(references_[expression.reference], context_);
      case Expression::Kind::Not:
        return !truth(evaluate(expression.operands[0]), "'!'");
      case Expression::Kind::Call: {
        std::vector<Json> arguments;
        for (const Expression& operand : expression.operands)
          arguments.push_back(evaluate(operand));
        return expression.function->apply(arguments);
      }
      case Expression::Kind::Operation:
        return operate(expression);
      case Expression::Kind::Arithmetic: {
        Json value = evaluate(expression.operands[0]);
        for (size_t i = 0; i < expression.arithmetic.size(); ++i) {
          value = compute(expression.arithmetic[i], value, evaluate(expression.operands[i + 1]));
        }
        return value;
      }
    }
    return nullptr;
  }

  bool operate(const Expression& expression) const {
    const std::vector<Expression>& operands = expression.operands;
    const auto is_true = [this](std::string_view where) {
      return [this, where](const Expression& e) { return truth(evaluate(e), where); };
    };
    if (expression.operation == Operator::Or) {
      return std::any_of(operands.begin(), operands.end(), is_true("'||'"));
    }
    if (expression.operation == Operator::And) {
      return std::all_of(operands.begin(), operands.end(), is_true("'&&'"));
    }
    const Json left = evaluate(operands[0]);
    const Json right = evaluate(operands[1]);
    switch (expression.operation) {
      case Operator::Equal:
        return left == right;
      case Operator::NotEqual:
        return left != right;
      case Operator::Less:
        return is_less(left, right);
      case Operator::LessEqual:
        return !is_less(right, left);
      case Operator::Greater:
        return is_less(right, left);
      case Operator::GreaterEqual:
        return !is_less(left, right);
      case Operator::Or:
      case Operator::And:
        break;  // handled above
    }
    DLFLOW_CHECK(false);
  }

  const std::vector<Reference>& references_;
  const Context& context_;
  bool keep_unknown_;
};

/// Compiles a value into Nodes and collects its references.
class Compiler {
 public:
  Compiler(const Template::Locate& locate, const Template::OnMistake& on_mistake,
           std::vector<Reference>& references)
      : locate_(locate), on_mistake_(on_mistake), references_(references) {}

  Node compile(const Json& value) {
    if (value.is_string()) return compile_text(value);
    if (value.is_structured()) return compile_elements(value);
    Node node;
    node.constant = value;
    return node;
  }

 private:
  Node compile_text(const Json& value) {
    const auto& text = value.get_ref<const std::string&>();
    Node node;
    node.constant = value;
    if (!holds_expression(text)) return node;
    auto parsed = parse_text(text);
    if (const auto* error = std::get_if<SyntaxError>(&parsed)) {
      on_mistake_(locate_(path_, error->expression, error->offset), error->message);
      return node;
    }
    auto& good = std::get<ParsedText>(parsed);
    renumber(good);
    for (ParsedReference& reference : good.references) {
      const Location location = locate_(path_, reference.expression, reference.offset);
      references_.push_back({std::move(reference.path), location});
    }
    node.text = std::move(good.parts);
    return node;
  }

  /// The parser numbers references per text, a Template numbers them for all its texts.
  void renumber(ParsedText& parsed) const {
    for (TextPart& part : parsed.parts) {
      part.first_reference += references_.size();
      part.end_reference += references_.size();
      renumber(part.expression);
    }
  }

  void renumber(Expression& expression) const {
    expression.reference += references_.size();
    for (Expression& operand : expression.operands) renumber(operand);
  }

  Node compile_elements(const Json& value) {
    Node node;
    bool constant = true;
    size_t index = 0;
    for (const auto& [key, element] : value.items()) {
      path_.push_back(value.is_object() ? key : std::to_string(index++));
      node.elements.push_back(compile(element));
      path_.pop_back();
      if (value.is_object()) node.keys.push_back(key);
      const Node& last = node.elements.back();
      constant = constant && last.text.empty() && last.elements.empty();
    }
    if (!constant) return node;
    Node whole;
    whole.constant = value;
    return whole;
  }

  const Template::Locate& locate_;
  const Template::OnMistake& on_mistake_;
  std::vector<Reference>& references_;
  std::vector<std::string> path_;
};

[[noreturn]] void throw_malformed(Location, const std::string& message) {
  throw Error(Errc::InvalidInput, message);
}

bool has_call(const Expression& expression, std::string_view function) {
  const bool is_one =
      expression.kind == Expression::Kind::Call && expression.function->name == function;
  return is_one || std::any_of(expression.operands.begin(), expression.operands.end(),
                               [&](const Expression& e) { return has_call(e, function); });
}

bool has_call(const Node& node, std::string_view function) {
  const auto calls = [&](const TextPart& part) {
    return part.is_expression && has_call(part.expression, function);
  };
  return std::ranges::any_of(node.text, calls) ||
         std::ranges::any_of(node.elements, [&](const Node& e) { return has_call(e, function); });
}

}  // namespace

struct Template::Compiled {
  Node root;
  std::vector<Reference> references;
};

Template::Template(Json value)
    : Template(
          std::move(value), [](auto, auto, auto) { return Location{}; }, throw_malformed) {}

Template::Template(Json value, const Locate& locate, const OnMistake& on_mistake)
    : source_(std::move(value)) {
  auto compiled = std::make_shared<Compiled>();
  compiled->root = Compiler(locate, on_mistake, compiled->references).compile(source_);
  const Node& root = compiled->root;
  if (!root.text.empty() || !root.elements.empty()) compiled_ = std::move(compiled);
}

const std::vector<Reference>& Template::references() const {
  static const std::vector<Reference> none;
  return compiled_ ? compiled_->references : none;
}

bool Template::calls(std::string_view function) const {
  return compiled_ && has_call(compiled_->root, function);
}

Json Template::evaluate(const Context& context) const {
  if (!compiled_) return source_;
  return Evaluator(compiled_->references, context, false).evaluate(compiled_->root);
}

Json Template::evaluate_known(const Context& context) const {
  if (!compiled_) return source_;
  return Evaluator(compiled_->references, context, true).evaluate(compiled_->root);
}

std::vector<Reference> Template::references_left(const Context& context) const {
  std::vector<Reference> left;
  if (compiled_)
    Evaluator(compiled_->references, context, true).collect_left(compiled_->root, left);
  return left;
}

Json value_in(const Json& values, const Reference& reference, size_t first) {
  const Json* value = &values;
  for (size_t i = first; i < reference.path.size(); ++i) {
    const auto found = value->is_object() ? value->find(reference.path[i]) : value->end();
    if (found == value->end()) {
      throw Error(Errc::InvalidInput, "there is no " + to_string(reference));
    }
    value = &*found;
  }
  return *value;
}

std::string to_string(const Reference& reference) { return join(reference.path, "."); }

}  // namespace dlflow
