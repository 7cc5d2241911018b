#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

/// The values in a model's YAML, and errors in them, by line and column.
namespace dlflow::runtime {

/// The layers of one use of a block, or of the network itself.
struct ModelScope {
  std::string prefix;                        // "layer1.0."
  std::map<std::string, YAML::Node> values;  // the block's $parameters
  std::map<std::string, int> names;          // layer indices by name
  int input = kImages;                       // the layer that `input` refers to
  int previous = kImages;
  std::string use;  // " (block 'basic' used in line 40)"
  std::set<std::string> used_values;
};

/// `- conv2d: {...}`, `- relu` or `- BLOCK: {...}`: a word and its attributes.
struct ModelEntry {
  std::string word;
  YAML::Node at;          // location of the word
  YAML::Node attributes;  // a map, or null
};

constexpr int64_t kMaxUnits = 1 << 20;  ///< the largest value of an attribute

/// Undefined if `attributes` has no such key.
YAML::Node attribute(const YAML::Node& attributes, const std::string& key);

/// NaN if `node` is not a number.
double number_in(const YAML::Node& node);

/// Reads scalars and collects errors. In a block, `$name` stands for the value that its use gives;
/// `scope` is null outside blocks.
class ModelValues {
 public:
  explicit ModelValues(std::string file) : file_(std::move(file)) {}

  /// Reads a word; empty if `given` is not one.
  std::string text_of(const YAML::Node& given, const std::string& what,
                      ModelScope* scope = nullptr);
  std::optional<int64_t> integer(const YAML::Node& given, const std::string& what, int64_t at_least,
                                 int64_t at_most, ModelScope* scope);
  bool boolean(const YAML::Node& attributes, const char* key, bool otherwise, ModelScope& scope);
  /// Reads a number in [0, 1).
  double share(const YAML::Node& attributes, const char* key, double otherwise, ModelScope& scope);
  /// Reads one number for both sides, or `[height, width]`.
  Extent extent(const YAML::Node& given, const std::string& what, int64_t at_least, bool square,
                ModelScope& scope);

  /// Reports unknown, duplicate and missing required keys of `map`.
  void check_keys(const YAML::Node& map, const std::vector<std::string>& required,
                  const std::vector<std::string>& optional, const std::string& what,
                  const YAML::Node& at = {});

  void report(const YAML::Node& node, const std::string& message);
  void report(int line, int column, const std::string& message);

  size_t num_mistakes() const { return diagnostics_.size(); }
  /// Throws ModelError if anything was reported.
  void throw_mistakes();

 private:
  YAML::Node resolve(const YAML::Node& node, ModelScope* scope);
  void report_unknown_keys(const YAML::Node& map, const std::vector<std::string>& known,
                           const std::string& what, std::set<std::string>& seen);

  std::string file_;
  std::vector<ModelDiagnostic> diagnostics_;
};

}  // namespace dlflow::runtime
