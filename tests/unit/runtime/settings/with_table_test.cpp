#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "engine/model/check.h"
#include "engine/model/step_kinds.h"
#include "runtime/settings/evaluate_settings.h"
#include "runtime/settings/train_settings.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

/// `with:` of train and evaluate is defined twice: the engine's table (engine/model/step_kinds.cpp)
/// feeds parser, JSON Schema and documents; the programs read with.json
/// (runtime/settings/train_settings.h). Neither may include the other. Here each key, choice, bound
/// and default of one is tried on the other.
///
/// Whole numbers above 2^31-1 and those written 3.0 are not tried: the programs take them, since
/// expressions that are evaluated when the job starts may give them.
using namespace dlflow;
using namespace dlflow::runtime;

namespace {

using Path = std::vector<std::string>;

/// A `with:` as the engine passes it on, with defaults; nothing if the table refuses it.
std::optional<Json> filled_in(const Shape& table, const Json& with) {
  Mistakes mistakes({}, {});
  const Names names;
  return Checker(mistakes, names).check(*to_yaml(with, {}), table, Scope::Nothing, {});
}

/// One of the two step kinds.
struct Program {
  std::string name;
  Json least;                                          ///< the required keys
  std::function<void(const Json& with)> parse;         ///< throws if the program refuses it
  std::function<bool(const Json&, const Json&)> same;  ///< whether both give the same settings

  const Shape& table() const { return find_step_kind(name)->with; }
  std::string refusal(const Json& with) const {
    return test::error_of([&] { parse(with); });
  }
};

Program train() {
  return {"train",
          // Enough epochs for any number of warm-up epochs.
          {{"model", "m.yaml"}, {"data", "d"}, {"epochs", 1'000'000'000}, {"lr", 0.1}},
          [](const Json& with) { (void)parse_train_settings(with); },
          [](const Json& a, const Json& b) {
            return parse_train_settings(a) == parse_train_settings(b);
          }};
}

Program evaluate() {
  return {"evaluate",
          {{"checkpoint", "c"}, {"data", "d"}},
          [](const Json& with) { (void)parse_evaluate_settings(with); },
          [](const Json& a, const Json& b) {
            return parse_evaluate_settings(a) == parse_evaluate_settings(b);
          }};
}

/// The keys that must be given together with a key, which only the programs define. They are in the
/// order in which a description names defaults ("local_sgd: …, 8 unless given; gossip: …, 1 unless
/// given").
std::vector<Json> contexts_of(const Path& path) {
  const Json fast = {{"precision", {{"reduction", "fast"}}}};
  const auto compressed = [&](const char* method) {
    Json with = fast;
    with["gradients"] = {{"compression", method}};
    return with;
  };
  const auto optimizer = [](const char* kind) { return Json{{"optimizer", {{"kind", kind}}}}; };
  const auto cooperation = [](const char* kind) { return Json{{"cooperation", {{"kind", kind}}}}; };
  const std::map<std::string, std::vector<Json>> contexts = {
      {"device", {fast}},
      {"min_lr", {{{"lr", 1000}}}},
      {"lr_power", {{{"schedule", "polynomial"}}}},
      {"lr_steps", {{{"schedule", "steps"}}}},
      {"lr_factor", {{{"schedule", "steps"}}}},
      {"base_batch", {{{"lr_scaling", "linear"}}}},
      {"lr_scaling", {{{"base_batch", 64}}}},
      {"optimizer.nesterov", {optimizer("sgd")}},
      {"optimizer.betas", {optimizer("adam"), optimizer("adamw"), optimizer("lamb")}},
      {"optimizer.eps", {optimizer("adam"), optimizer("lamb"), optimizer("adagrad")}},
      {"optimizer.alpha", {optimizer("rmsprop")}},
      {"optimizer.trust", {optimizer("lars")}},
      {"gradients.wire", {fast}},
      {"gradients.compression", {fast}},
      {"gradients.density", {compressed("topk"), compressed("randomk"), compressed("dgc")}},
      {"gradients.warmup_epochs", {compressed("mstopk")}},
      {"gradients.aggregation", {compressed("topk")}},
      {"gradients.rank", {compressed("powersgd")}},
      {"gradients.clip", {compressed("dgc")}},
      {"cooperation.every", {cooperation("local_sgd"), cooperation("gossip")}},
      {"cooperation.rate", {cooperation("elastic")}},
      {"cooperation.synchronous_epochs", {cooperation("local_sgd")}},
      {"cooperation.servers", {cooperation("parameter_server")}},
      {"cooperation.staleness", {cooperation("parameter_server")}},
      {"stop_early.metric", {{{"stop_early", {{"patience", 1}}}}}},
      {"stop_early.patience", {{{"stop_early", {{"metric", "loss"}}}}}},
      {"stop_early.min_change", {{{"stop_early", {{"metric", "loss"}, {"patience", 1}}}}}},
      {"stop_early.reach", {{{"stop_early", {{"metric", "loss"}}}}}},
      {"precision.leaves", {Json::object()}},
  };
  const auto found = contexts.find(join(path, "."));
  if (found != contexts.end()) return found->second;
  return path.size() > 1 ? contexts_of({path.front()}) : std::vector<Json>{Json::object()};
}

/// The keys for one value of the key: only GPUs have TF32.
std::vector<Json> contexts_of(const Path& path, const Json& value) {
  if (value != "tf32") return contexts_of(path);
  return {{{"device", "cuda"}, {"precision", {{"reduction", "fast"}}}}};
}

/// The smallest value that `shape` accepts, used for required keys next to the key under test.
Json any_value(const Shape& shape) {
  switch (shape.type) {
    case Shape::Type::Choice:
      return shape.choices.front();
    case Shape::Type::Either:
      return any_value(shape.parts.front());
    case Shape::Type::Formed:
      return shape.form->or_integer ? Json("1GiB") : Json("x");
    case Shape::Type::Number:
      return 0.5;
    default:
      return 1;
  }
}

/// Returns `with` with `value` at `path`, and all required keys of the objects on the way.
Json with_value(const Shape& table, Json with, const Path& path, const Json& value) {
  const Shape* shape = &table;
  Json* at = &with;
  for (const std::string& key : path) {
    for (const Field& field : shape->fields) {
      const bool is_missing = !at->contains(field.name) && field.name != key;
      if (field.presence == Presence::Required && is_missing) {
        (*at)[field.name] = any_value(field.shape);
      }
    }
    at = &(*at)[key];
    if (const Field* field = find_field(*shape, key)) shape = &field->shape;
  }
  *at = value;
  return with;
}

void collect(const Shape& shape, std::vector<Json>& values) {
  for (const std::string& choice : shape.choices) values.emplace_back(choice);
  for (const auto& bound : {shape.minimum, shape.maximum}) {
    if (!bound || std::abs(*bound) > 1e6 || shape.type == Shape::Type::List) continue;
    for (const int step : {-1, 0, 1}) values.emplace_back(int64_t(*bound) + step);
  }
  for (const Shape& part : shape.parts) collect(part, values);
}

/// Values of every type, at and beyond all bounds, every choice, and an invalid word.
std::vector<Json> values_for(const Shape& shape) {
  std::vector<Json> values = {nullptr,       true,           false,     -1,  0,   1,  2,
                              -0.5,          1e-9,           0.5,       1.5, "x", "", "1GiB",
                              Json::array(), Json::object(), {{"x", 1}}};
  collect(shape, values);
  const std::vector<Json> single = values;
  for (const Json& value : single) {
    values.push_back(Json::array({value}));
    values.push_back(Json::array({value, value}));
    values.push_back(Json::array({0.5, value}));
    values.push_back(Json::array({0.5, 0.5, value}));
  }
  std::ranges::sort(values);
  const auto repeated = std::ranges::unique(values);
  values.erase(repeated.begin(), repeated.end());
  return values;
}

struct Key {
  Path path;
  const Field* field;
};

void collect(const Shape& object, const Path& path, std::vector<Key>& keys) {
  for (const Field& field : object.fields) {
    Path inner = path;
    inner.push_back(field.name);
    keys.push_back({inner, &field});
    collect(field.shape, inner, keys);
  }
}

std::vector<Key> keys_of(const Program& program) {
  std::vector<Key> keys;
  collect(program.table(), {}, keys);
  return keys;
}

Json start_of(const Program& program, const Json& context) {
  Json with = program.least;
  if (program.name == "train") with.merge_patch(context);
  return with;
}

/// The difference between both for one `with:`; empty if they agree.
std::string difference(const Program& program, const Json& with) {
  const std::optional<Json> filled = filled_in(program.table(), with);
  const std::string refusal = program.refusal(with);
  if (!filled) return refusal.empty() ? "only the table refuses " + with.dump() + "\n" : "";
  if (!refusal.empty()) return "only the program refuses " + with.dump() + ": " + refusal + "\n";
  if (program.same(with, *filled)) return "";
  return "other defaults: " + with.dump() + " is filled in as " + filled->dump() + "\n";
}

std::vector<std::string> names_in(const Shape& object) {
  std::vector<std::string> names;
  for (const Field& field : object.fields) names.push_back(field.name);
  std::ranges::sort(names);
  return names;
}

/// The keys that the program reads in the object at `path`, taken from its error for an unknown
/// key.
std::vector<std::string> names_read(const Program& program, Path path) {
  const Json start = start_of(program, contexts_of(path).front());
  path.emplace_back("qqqqqqqqqqqqqqqqqqqqqqqq");
  const std::string refusal = program.refusal(with_value(program.table(), start, path, 1));
  const std::string begin = "; known: ";
  const size_t list = refusal.find(begin);
  if (list == std::string::npos) return {refusal};
  const std::regex comma(", ");
  const std::string names = refusal.substr(list + begin.size());
  return {std::sregex_token_iterator(names.begin(), names.end(), comma, -1), {}};
}

/// The values before "unless given" in a description, in its order.
std::vector<Json> described_defaults(const std::string& description) {
  static const std::regex default_of(R"((\[[^\]]*\]|[^ ;]+),? unless given)");
  std::vector<Json> values;
  for (std::sregex_iterator found(description.begin(), description.end(), default_of), end;
       found != end; ++found) {
    Json value = Json::parse(found->str(1), nullptr, false);
    if (!value.is_discarded()) values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

TEST_CASE("the table of `with:` and the program accept the same values, with the same defaults",
          "[with]") {
  for (const Program& program : {train(), evaluate()}) {
    std::string differences = difference(program, program.least);
    for (const Key& key : keys_of(program)) {
      for (const Json& value : values_for(key.field->shape)) {
        for (const Json& context : contexts_of(key.path, value)) {
          const Json start = start_of(program, context);
          differences += difference(program, with_value(program.table(), start, key.path, value));
        }
      }
    }
    CHECK(differences == "");
  }
}

TEST_CASE("the program reads the keys in the table of `with:`, and requires the same ones",
          "[with]") {
  for (const Program& program : {train(), evaluate()}) {
    CHECK(names_read(program, {}) == names_in(program.table()));
    for (const Key& key : keys_of(program)) {
      if (key.field->shape.type == Shape::Type::Object) {
        CHECK(names_read(program, key.path) == names_in(key.field->shape));
      }
      if (key.field->presence != Presence::Required) continue;
      Json with = with_value(program.table(), start_of(program, contexts_of(key.path).front()),
                             key.path, nullptr);
      Json* object = &with;
      for (size_t i = 0; i + 1 < key.path.size(); ++i) object = &(*object)[key.path[i]];
      object->erase(key.path.back());
      CHECK(program.refusal(with) != "");
    }
  }
}

TEST_CASE("a default that a description names is the program's", "[with]") {
  size_t num_defaults = 0;
  for (const Program& program : {train(), evaluate()}) {
    for (const Key& key : keys_of(program)) {
      const std::vector<Json> defaults = described_defaults(key.field->description);
      const std::vector<Json> contexts = contexts_of(key.path);
      for (size_t i = 0; i < defaults.size(); ++i) {
        const Json without = start_of(program, contexts.at(i));
        INFO(join(key.path, ".") << " = " << defaults[i].dump());
        CHECK(program.same(with_value(program.table(), without, key.path, defaults[i]), without));
        ++num_defaults;
      }
    }
  }
  CHECK(num_defaults >= 12);
}
