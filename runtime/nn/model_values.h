#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

/// The values in a model's YAML, and what is wrong with them, by line and column.
namespace dlflow::runtime {

/// The layers of one use of a block, or of the network itself.
struct ModelScope {
  std::string prefix;                        // "layer1.0."
  std::map<std::string, YAML::Node> values;  // of the block's $parameters
  std::map<std::string, int> names;          // to the layer's index
  int input = kImages;                       // what `input` means here
  int previous = kImages;
  std::string use;  // " (block 'basic' used in line 40)"
  std::set<std::string> used_values;
};

/// `- conv2d: {...}`, `- relu` or `- BLOCK: {...}`: a word and its attributes.
struct ModelEntry {
  std::string word;
  YAML::Node at;          // where the word stands
  YAML::Node attributes;  // a map, or null
};

constexpr int64_t kMaxUnits = 1 << 20;  ///< the largest number that an attribute may be

/// Undefined if `attributes` has no such key.
YAML::Node attribute(const YAML::Node& attributes, const std::string& key);

/// NaN if `node` is no number.
double number_in(const YAML::Node& node);

/// Reads scalars, and keeps what is wrong. In a block `$name` stands for what its use gives;
/// `scope` is null where there is no block.
class ModelValues {
 public:
  explicit ModelValues(std::string file) : file_(std::move(file)) {}

  /// A word; empty if it is none.
  std::string text_of(const YAML::Node& given, const std::string& what,
                      ModelScope* scope = nullptr);
  std::optional<int64_t> integer(const YAML::Node& given, const std::string& what, int64_t at_least,
                                 int64_t at_most, ModelScope* scope);
  bool boolean(const YAML::Node& attributes, const char* key, bool otherwise, ModelScope& scope);
  /// A number from 0 to less than 1.
  double share(const YAML::Node& attributes, const char* key, double otherwise, ModelScope& scope);
  /// One number for both sides, or `[height, width]`.
  Extent extent(const YAML::Node& given, const std::string& what, int64_t at_least, bool square,
                ModelScope& scope);

  /// Reports keys of `map` that are unknown or there twice, and required ones that are missing.
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
