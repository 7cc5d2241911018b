#include "engine/model/schema.h"

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

Json schema() { return Json::parse(workflow_schema()); }

/// Returns the schema's rule for steps that use `kind`.
Json rule_of(const std::string& kind) {
  const Json all = schema();
  for (const Json& rule : all.at("$defs").at("step").at("allOf")) {
    if (rule.at("if").at("properties").at("uses").at("const") == kind) return rule.at("then");
  }
  return Json();
}

}  // namespace

TEST_CASE("the schema describes itself, and demands steps", "[schema]") {
  const Json all = schema();
  CHECK(all.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  CHECK(all.at("title") == "dlflow workflow");
  CHECK(all.at("description").get<std::string>().starts_with("A workflow of"));
  const Json& steps = all.at("properties").at("steps");
  CHECK(steps.at("minProperties") == 1);
  CHECK(steps.at("additionalProperties").at("$ref") == "#/$defs/step");
  CHECK(steps.at("propertyNames").contains("pattern"));
  CHECK(all.at("$defs").at("expression") == Json{{"type", "string"}, {"pattern", "[$][{][{]"}});
  CHECK(workflow_schema().starts_with("{\n  \""));  // two spaces, for people
}

TEST_CASE("in the schema a step uses a kind or runs a command", "[schema]") {
  const Json step = schema().at("$defs").at("step");
  CHECK(step.at("oneOf") == Json::parse(R"([{"required": ["uses"]}, {"required": ["run"]}])"));
  CHECK(step.at("dependentSchemas").at("run") ==
        Json::parse(R"({"properties": {"with": {"type": "object"}}})"));
  CHECK(step.at("additionalProperties") == false);
}

TEST_CASE("the rule of a kind has the keys that it needs, takes and refuses", "[schema]") {
  const Json train = rule_of("train");
  CHECK(train.at("required") == Json({"with"}));
  CHECK(train.at("properties").at("checkpoint").at("properties").at("newer") == false);
  const Json& with = train.at("properties").at("with");
  CHECK(with.at("required") == Json({"model", "data", "epochs", "lr"}));
  CHECK(with.at("description") == "Trains a network on all ranks of the step");
  CHECK(with.at("allOf") == Json::parse(R"([{"not": {"required": ["batch", "batch_per_rank"]}}])"));
  const Json& properties = with.at("properties");
  CHECK(properties.at("batch").at("anyOf").at(0) ==
        Json::parse(R"({"type": "integer", "minimum": 1, "maximum": 2147483647})"));
  CHECK(properties.at("batch").at("anyOf").at(1) == Json{{"$ref", "#/$defs/expression"}});
  CHECK(properties.at("lr").at("anyOf").at(0) ==
        Json::parse(R"({"type": "number", "exclusiveMinimum": 0.0})"));
  CHECK(properties.at("momentum").at("anyOf").at(0) ==
        Json::parse(R"({"type": "number", "minimum": 0.0, "exclusiveMaximum": 1.0})"));
  CHECK(properties.at("momentum").at("default") == 0.9);
  CHECK_FALSE(properties.at("batch").contains("default"));
  CHECK(properties.at("batch").at("description").get<std::string>().starts_with("Samples"));
  CHECK(properties.at("augment").at("default") == Json::array());

  const Json stage = rule_of("stage");
  CHECK(stage.at("properties").at("checkpoint") == false);
  CHECK(stage.at("properties").at("outputs") == false);
}

TEST_CASE("a value of several forms may have each of them, or be an expression", "[schema]") {
  const Json from = rule_of("checkpoint").at("properties").at("with").at("properties").at("from");
  REQUIRE(from.at("anyOf").size() == 3);
  CHECK(from.at("anyOf").at(0).at("type") == "string");
  CHECK(from.at("anyOf").at(1).at("type") == "array");
  CHECK(from.at("anyOf").at(1).at("minItems") == 1);
  CHECK(from.at("anyOf").at(2) == Json{{"$ref", "#/$defs/expression"}});
}

TEST_CASE("keys of a map have the form of names", "[schema]") {
  const Json environment =
      schema().at("$defs").at("step").at("properties").at("env").at("anyOf").at(0);
  CHECK(environment.at("type") == "object");
  CHECK(environment.at("propertyNames").contains("pattern"));
  CHECK(environment.contains("additionalProperties"));
}
