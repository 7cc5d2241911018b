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
  Location location;  ///< of its first letter in the workflow file; {} if the text came from JSON
};

/// "steps.data.outputs.path"
std::string to_string(const Reference& reference);

/// Looks up the names of `reference` from number `first` on in `values`. Throws Error{InvalidInput}
/// if there is no such value.
Json value_in(const Json& values, const Reference& reference, size_t first);

/// The values of references at some moment. Scopes without values yet are absent, such as steps
/// before they ran.
struct Context {
  const Json* params = nullptr;  ///< object
  const Json* matrix = nullptr;  ///< object: this element's value of each axis
  const Json* run = nullptr;     ///< object: id, directory
  /// Returns the value of steps.NAME.outputs.KEY, steps.NAME.metrics.KEY or steps.NAME.matrix.AXIS
  /// (a list if NAME has a matrix whose elements are not matched one by one). May throw Error.
  std::function<Json(const Reference&)> steps = {};
};

/// A YAML value whose strings may hold expressions, compiled once and evaluated often (once per
/// matrix element). A string that is a single expression takes the expression's type; any text
/// around an expression makes it a string. `$${{` stands for a literal `${{`.
class Template {
 public:
  /// Returns the location in a file of byte `offset` of the `index`-th expression (from 0) of the
  /// string at `path`, which holds keys and list indices from the outermost value on.
  using Locate =
      std::function<Location(std::span<const std::string> path, size_t index, size_t offset)>;
  /// Called for each mistake in an expression.
  using OnMistake = std::function<void(Location, const std::string& message)>;

  Template() = default;  ///< holds null

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

  /// Returns the value with every expression replaced. Throws Error{InvalidInput} naming the
  /// expression if a reference has no value in `context` or a function rejects an argument.
  Json evaluate(const Context& context) const;

  /// Like evaluate(), but leaves expressions that mention a scope absent from `context` as they
  /// are. The result is the source of another Template, to be evaluated when more is known.
  /// Therefore it holds `$${{` for each literal `${{`, also for one from the value of a parameter.
  Json evaluate_known(const Context& context) const;

  /// The references in expressions that evaluate_known(context) leaves as they are.
  std::vector<Reference> references_left(const Context& context) const;

 private:
  struct Compiled;
  Json source_;
  std::shared_ptr<const Compiled> compiled_;  // null: no expressions anywhere
};

}  // namespace dlflow
