#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/model/diagnostic.h"

/// `${{ … }}`: typed references and a few pure functions, never shell text. The language is
/// described in docs/user/format/expressions.md, its grammar in expression_syntax.h.
namespace dlflow {

/// One reference inside an expression: params.epochs, matrix.lr, steps.data.outputs.path,
/// steps.train.metrics.loss, steps.best.matrix.lr, run.id.
struct Reference {
  std::vector<std::string> path;
  Location location;  ///< of its first letter in the workflow file; {} when the text came from JSON
};

/// "steps.data.outputs.path"
std::string to_string(const Reference& reference);

/// The value that the names of `reference` from `first` on lead to in `values`. Throws
/// Error{InvalidInput} if there is none.
Json value_in(const Json& values, const Reference& reference, size_t first);

/// The values of references at some moment. A scope that is not known yet (steps, before they ran)
/// is absent.
struct Context {
  const Json* params = nullptr;  ///< object
  const Json* matrix = nullptr;  ///< object: this element's value of each axis
  const Json* run = nullptr;     ///< object: id, directory
  /// The value of steps.NAME.outputs.KEY, steps.NAME.metrics.KEY or steps.NAME.matrix.AXIS (a list
  /// if NAME has a matrix whose elements are not matched one by one). May throw Error.
  std::function<Json(const Reference&)> steps;
};

/// A YAML value in which any string may hold expressions, compiled once and evaluated often (once
/// per matrix element). A string that is one expression and nothing else keeps the expression's
/// type; text around an expression makes it a string. `$${{` stands for a literal `${{`.
class Template {
 public:
  /// Where byte `offset` of the `index`-th expression (from 0) of the string at `path` (keys and
  /// list indices from the outermost value on) stands in a file.
  using Locate =
      std::function<Location(std::span<const std::string> path, size_t index, size_t offset)>;
  /// Takes what is wrong with an expression, and where.
  using OnMistake = std::function<void(Location, const std::string& message)>;

  Template() = default;  ///< null

  /// Compiles `value`. Throws Error{InvalidInput} for a malformed expression.
  explicit Template(Json value);

  /// Compiles a value that was read from a file. A malformed expression is reported, and the
  /// string that holds it counts as plain text.
  Template(Json value, const Locate& locate, const OnMistake& on_mistake);

  const Json& source() const { return source_; }
  bool has_references() const { return !references().empty(); }
  const std::vector<Reference>& references() const;

  /// Whether an expression calls `function`.
  bool calls(std::string_view function) const;

  /// The value with every expression replaced. Throws Error{InvalidInput} naming the expression if
  /// a reference has no value in `context` or a function is given what it cannot take.
  Json evaluate(const Context& context) const;

  /// As evaluate, but an expression that mentions a scope absent from `context` stays as it is.
  /// The result is again the source of a Template, to be evaluated when more is known: a literal
  /// `${{` in it, also one that came out of a parameter, is written `$${{`.
  Json evaluate_known(const Context& context) const;

  /// What the expressions mention that evaluate_known(context) leaves as they are.
  std::vector<Reference> references_left(const Context& context) const;

 private:
  struct Compiled;
  Json source_;
  std::shared_ptr<const Compiled> compiled_;  // null: no expressions anywhere
};

}  // namespace dlflow
