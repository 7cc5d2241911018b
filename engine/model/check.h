#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/expression.h"
#include "engine/model/mistakes.h"
#include "engine/model/shape.h"
#include "engine/model/workflow.h"
#include "engine/model/yaml.h"

/// Compares a YAML tree with its Shape, and evaluates expressions as far as values are known.
namespace dlflow {

/// The name of a value in messages: "resources.ranks" of "step 'train'". Either may be empty.
struct Subject {
  std::string path;
  std::string owner;

  Subject at(const std::string& key) const;
  Subject at(size_t index) const;
  std::string name() const;
};

/// The names that a value may refer to, with the values that are known while the file is read.
struct Names {
  /// The parameters evaluated so far. If null, the values are plain data without expressions.
  const Json* params = nullptr;
  std::vector<std::string> wrong_params = {};  ///< defined, but with a mistake: no second message
  std::vector<std::string> later_params = {};  ///< further down in the file
  const Matrix* matrix = nullptr;              ///< of the step; null if it has none
  bool matrix_is_wrong = false;                ///< no messages about references to it
  std::filesystem::path base = {};             ///< the folder of named files; empty: not looked up
};

class Checker {
 public:
  /// Both arguments must outlive the Checker.
  Checker(Mistakes& mistakes, const Names& names) : mistakes_(mistakes), names_(names) {}

  /// Returns the value of `node`, with the defaults of missing keys. Adds a mistake for everything
  /// that does not fit `shape`, and then returns nothing. Expressions are evaluated if `scope` is
  /// Params. Otherwise they stay; results that depend only on parameters and one axis are checked.
  std::optional<Json> check(const YamlNode& node, const Shape& shape, Scope scope,
                            const Subject& subject);

  /// Reports keys that `shape` does not have, with advice, and repeated keys.
  void check_keys(const YamlNode& map, const Shape& shape, const Subject& subject);

  /// Reports a free key that does not have the required form.
  void report_bad_name(const YamlEntry& entry, const Form& form, const Subject& subject);

  /// Reports the second of two identical keys.
  void report_repeated_key(const YamlEntry& entry, const Subject& subject);

 private:
  struct Wanted {
    const Shape& shape;
    Scope scope;
    const Subject& subject;
  };

  bool check_node(const YamlNode& node, const Wanted& wanted, Json& value);
  bool check_list(const YamlNode& node, const Wanted& wanted, Json& value);
  bool check_map(const YamlNode& node, const Wanted& wanted, Json& value);
  bool check_entry(const YamlEntry& entry, const Wanted& wanted, Json& value);
  bool add_missing_keys(const YamlNode& node, const Wanted& wanted, Json& value);
  bool check_anything(const YamlNode& node, const Wanted& wanted, Json& value);
  bool check_scalar(const YamlNode& node, const Wanted& wanted);
  bool check_file(const YamlNode& node, const Wanted& wanted);
  bool refuse(const YamlNode& node, const Wanted& wanted);
  bool check_expression(const YamlNode& node, const Wanted& wanted, Json& value);
  bool check_reference(const Reference& reference, const Wanted& wanted);
  bool check_param(const Reference& reference);
  bool check_axis(const Reference& reference);
  bool check_result(const Template& text, const Json* element, const YamlNode& node,
                    const Wanted& wanted, Json& value);
  void report_unknown_key(const YamlEntry& entry, const Shape& shape, const Subject& subject);

  Mistakes& mistakes_;
  const Names& names_;
};

/// Adds a mistake and returns false if the reference has a key at place `at` that is not one of the
/// axis before it.
bool check_key(const Matrix& matrix, const Reference& reference, size_t at, Mistakes& mistakes);

/// Returns the Template of a value read from `node` (`value` may add defaults), with located
/// references. Malformed expressions count as text: Checker::check reports them.
Template located_template(Json value, const YamlNode& node, const Mistakes& mistakes);

}  // namespace dlflow
