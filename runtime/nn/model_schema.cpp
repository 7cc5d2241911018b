#include "runtime/nn/model_schema.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "runtime/nn/layer_syntax.h"

namespace dlflow::runtime {
namespace {

using Json = nlohmann::json;

/// A value of an attribute, or within a block a parameter in its place: `$channels`.
Json or_parameter(const Json& value) {
  return {{"anyOf", {value, {{"type", "string"}, {"pattern", "^[$]"}}}}};
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::ranges::find(names, name) != names.end();
}

/// A number for both directions, or [height, width].
Json extent_schema(const Json& number) {
  const Json pair = {{"type", "array"}, {"items", number}, {"minItems", 2}, {"maxItems", 2}};
  return {{"anyOf", {number, pair}}};
}

Json attribute_schema(const std::string& name) {
  if (is_one_of(name, {"name", "from", "tied"})) return {{"type", "string"}};
  if (is_one_of(name, {"bias", "causal", "rotary"})) return or_parameter({{"type", "boolean"}});
  if (name == "init") return or_parameter({{"enum", {"pytorch", "he", "xavier", "zero"}}});
  if (name == "algorithm") return or_parameter({{"enum", {"auto", "direct", "winograd"}}});
  if (is_one_of(name, {"rate", "slope"})) {
    return or_parameter({{"type", "number"}, {"minimum", 0}, {"exclusiveMaximum", 1}});
  }
  const Json number = {{"type", "integer"}, {"minimum", name == "padding" ? 0 : 1}};
  const bool both = is_one_of(name, {"kernel", "stride", "padding", "dilation", "size"});
  return or_parameter(both ? extent_schema(number) : number);
}

Json layer_schema(const LayerSyntax& syntax) {
  Json schema = {{"type", syntax.required.empty() ? Json{"object", "null"} : Json("object")},
                 {"additionalProperties", false}};
  const std::vector<std::string> common = {"name", "from"};
  for (const auto& names : {syntax.required, syntax.optional, common}) {
    for (const std::string& name : names) schema["properties"][name] = attribute_schema(name);
  }
  if (syntax.reads_list) {
    schema["properties"]["from"] = {
        {"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 2}};
  }
  if (!syntax.required.empty()) schema["required"] = syntax.required;
  return schema;
}

/// A word, or a word with attributes. A word that names no layer is a block, which needs a name.
Json entry_schema() {
  Json words = Json::array();
  Json with_attributes = {{"type", "object"}, {"minProperties", 1}, {"maxProperties", 1}};
  for (const auto& [word, syntax] : layer_syntax()) {
    if (syntax.required.empty()) words.push_back(word);
    with_attributes["properties"][word] = layer_schema(syntax);
  }
  with_attributes["additionalProperties"] = {{"type", "object"}, {"required", {"name"}}};
  return {{"anyOf", {{{"enum", words}}, with_attributes}}};
}

}  // namespace

std::string model_schema() {
  const Json layers = {{"type", "array"}, {"minItems", 1}, {"items", {{"$ref", "#/$defs/layer"}}}};
  const Json sizes = {
      {"type", "array"},
      {"items", {{"type", "integer"}, {"minimum", 1}}},
      {"anyOf", {{{"minItems", 1}, {"maxItems", 1}}, {{"minItems", 3}, {"maxItems", 3}}}}};
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "dlflow model"},
                 {"description", "A network as a list of layers; see docs/user/model-format.md"},
                 {"type", "object"},
                 {"additionalProperties", false},
                 {"required", {"name", "input", "layers"}}};
  schema["properties"] = {
      {"name", {{"type", "string"}}},
      {"input", sizes},
      {"layers", layers},
      {"blocks", {{"type", "object"}, {"additionalProperties", layers}}},
      {"loss",
       {{"enum",
         {"softmax_cross_entropy", "next_token", "reconstruction", "mse", "l1", "huber", "bce",
          "pixel_cross_entropy", "dice", "pixel_cross_entropy_and_dice"}}}},
      {"init", {{"enum", {"pytorch", "he", "xavier"}}}},
      {"ignored_token", {{"type", "integer"}, {"minimum", 0}}}};
  schema["$defs"]["layer"] = entry_schema();
  return schema.dump(2);
}

}  // namespace dlflow::runtime
