#include "engine/model/schema.h"

#include "engine/model/forms.h"
#include "engine/model/profile_shape.h"
#include "engine/model/step_kinds.h"
#include "engine/model/workflow_shape.h"

namespace dlflow {
namespace {

constexpr const char* kDialect = "https://json-schema.org/draft/2020-12/schema";

/// A string with an expression, allowed in place of the value itself.
Json expression_schema() { return {{"$ref", "#/$defs/expression"}}; }

Json schema_of(const Shape& shape, Scope scope);

Json number_schema(const Shape& shape, const char* type) {
  Json schema = {{"type", type}};
  if (shape.minimum) schema[shape.above_minimum ? "exclusiveMinimum" : "minimum"] = *shape.minimum;
  if (shape.maximum) schema[shape.below_maximum ? "exclusiveMaximum" : "maximum"] = *shape.maximum;
  return schema;
}

Json form_schema(const Form& form) {
  Json text = {{"type", "string"}, {"pattern", form.pattern}};
  if (!form.or_integer) return text;
  return {{"anyOf", {text, {{"type", "integer"}, {"minimum", 1}}}}};
}

Json object_schema(const Shape& shape, Scope scope) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  for (const Field& field : shape.fields) {
    Json& property = schema["properties"][field.name];
    property = schema_of(field.shape, field.scope.value_or(scope));
    property["description"] = field.description;
    if (!field.fallback.is_null()) property["default"] = field.fallback;
    if (field.presence == Presence::Required) schema["required"].push_back(field.name);
  }
  return schema;
}

Json map_schema(const Shape& shape, Scope scope) {
  Json schema = object_schema(shape, scope);
  schema["additionalProperties"] = schema_of(shape.parts[0], scope);
  std::string pattern(shape.form->pattern);
  schema["propertyNames"] = {{"pattern", pattern}};
  return schema;
}

Json plain_schema(const Shape& shape, Scope scope) {
  switch (shape.type) {
    case Shape::Type::Anything:
      return Json::object();
    case Shape::Type::Text:
      return {{"type", "string"}};
    case Shape::Type::Integer:
      return number_schema(shape, "integer");
    case Shape::Type::Number:
      return number_schema(shape, "number");
    case Shape::Type::Boolean:
      return {{"type", "boolean"}};
    case Shape::Type::Choice:
      return {{"enum", shape.choices}};
    case Shape::Type::Formed:
      return form_schema(*shape.form);
    case Shape::Type::List: {
      Json list = {{"type", "array"},
                   {"items", schema_of(shape.parts[0], scope)},
                   {"minItems", int(*shape.minimum)}};
      if (shape.maximum) list["maxItems"] = int(*shape.maximum);
      return list;
    }
    case Shape::Type::Object:
      return object_schema(shape, scope);
    case Shape::Type::Map:
      return map_schema(shape, scope);
    case Shape::Type::Either:
      break;
  }
  Json schema;
  for (const Shape& part : shape.parts) schema["anyOf"].push_back(plain_schema(part, scope));
  return schema;
}

Json schema_of(const Shape& shape, Scope scope) {
  const bool can_be_text = shape.type == Shape::Type::Anything || shape.type == Shape::Type::Text;
  Json schema = plain_schema(shape, scope);
  if (scope == Scope::Nothing || can_be_text) return schema;
  if (shape.type == Shape::Type::Either) {
    schema["anyOf"].push_back(expression_schema());
    return schema;
  }
  return {{"anyOf", {schema, expression_schema()}}};
}

/// The rules of one step kind: the keys of `with`, and whether `with` is required.
Json kind_rule(const StepKind& kind) {
  Json with = plain_schema(kind.with, Scope::Steps);
  with["description"] = kind.description;
  for (const auto& [key, other] : kind.alternatives) {
    with["allOf"].push_back({{"not", {{"required", {key, other}}}}});
  }
  Json then = {{"properties", {{"with", with}, {"outputs", false}, {"launch", false}}}};
  if (with.contains("required")) then["required"] = {"with"};
  Json& checkpoint = then["properties"]["checkpoint"];
  checkpoint = false;
  if (kind.saves_itself) {
    checkpoint = {{"properties", {{"signal", false}, {"lead", false}, {"newer", false}}}};
  }
  return {{"if", {{"properties", {{"uses", {{"const", kind.name}}}}}, {"required", {"uses"}}}},
          {"then", then}};
}

Json step_schema() {
  Json schema = plain_schema(step_shape(), Scope::Nothing);
  schema["oneOf"] = {{{"required", {"uses"}}}, {{"required", {"run"}}}};
  schema["dependentSchemas"]["run"] = {{"properties", {{"with", {{"type", "object"}}}}}};
  for (const StepKind& kind : step_kinds()) schema["allOf"].push_back(kind_rule(kind));
  return schema;
}

}  // namespace

std::string workflow_schema() {
  Json schema = plain_schema(workflow_shape(), Scope::Nothing);
  schema["$schema"] = kDialect;
  schema["title"] = "dlflow workflow";
  schema["description"] = "A workflow of deep-learning steps; see docs/user/workflow-format.md";
  schema["$defs"]["expression"] = {{"type", "string"}, {"pattern", "[$][{][{]"}};
  schema["$defs"]["step"] = step_schema();
  Json& steps = schema["properties"]["steps"];
  steps = {{"type", "object"},
           {"description", find_field(workflow_shape(), "steps")->description},
           {"propertyNames", {{"pattern", kNameForm.pattern}}},
           {"additionalProperties", {{"$ref", "#/$defs/step"}}},
           {"minProperties", 1}};
  return schema.dump(2);
}

std::string profile_schema() {
  Json schema = plain_schema(profile_shape(), Scope::Nothing);
  schema["$schema"] = kDialect;
  schema["title"] = "dlflow profile";
  schema["description"] = "A cluster; see cluster-profiles/local.yaml for the meaning of every key";
  return schema.dump(2);
}

}  // namespace dlflow
