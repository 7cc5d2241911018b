#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/model/diagnostic.h"

/// `${{ … }}`: typed references and a few pure functions, never shell text.
namespace dlflow {

/// One reference inside an expression: params.epochs, matrix.lr, steps.data.outputs.path, run.id.
struct Reference {
  std::vector<std::string> path;
  Location location;  ///< of its first letter in the workflow file; {} when the text came from JSON
};

/// What references mean at some moment. A scope that is not known yet (steps, before they ran) is
/// absent.
struct Context {
  const Json* params = nullptr;  ///< object
  const Json* matrix = nullptr;  ///< object: this element's value of each axis
  const Json* run = nullptr;     ///< object: id, directory
  std::function<Json(const Reference&)>
      steps;  ///< value of steps.NAME.outputs.KEY (list outside a matrix)
};

/// A YAML value in which any string may hold expressions, compiled once and evaluated often (once
/// per matrix element). A string that is one expression and nothing else keeps the expression's
/// type; text around an expression makes it a string. `$${{` stands for a literal `${{`.
class Template {
 public:
  Template() = default;  ///< null

  /// Compiles `value`. Throws Error{InvalidInput} for a malformed expression (the workflow parser
  /// compiles string by string with locations instead, see parse.cpp).
  explicit Template(Json value);

  const Json& source() const { return source_; }
  bool has_references() const { return !references().empty(); }
  const std::vector<Reference>& references() const;

  /// The value with every expression replaced. Throws Error{InvalidInput} naming the reference if
  /// it has no value in `context` or a function is given what it cannot take.
  Json evaluate(const Context& context) const;

  /// As evaluate, but expressions that mention a scope absent from `context` stay as they are.
  Json evaluate_known(const Context& context) const;

 private:
  struct Compiled;
  Json source_;
  std::shared_ptr<const Compiled> compiled_;  // null: no expressions anywhere
};

}  // namespace dlflow
