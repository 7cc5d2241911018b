#include "engine/model/hints.h"

#include <algorithm>
#include <string_view>

#include "base/json.h"
#include "base/text.h"

namespace dlflow {
namespace {

/// Guesses the intended mapping: "{kind: adam}" for 'Adam' where a mapping with `kind` is required.
std::string example_of(const Json& value, const Shape& shape) {
  if (shape.type == Shape::Type::Map || shape.fields.empty()) return "{NAME: …}";
  const Field* first = &shape.fields.front();
  for (const Field& field : shape.fields) {
    if (field.presence == Presence::Required) {
      first = &field;
      break;
    }
    if (value.is_string() && fits(value, field.shape) && first->shape.type == Shape::Type::List)
      first = &field;
  }
  std::string text = "…";
  if (first->shape.type == Shape::Type::Choice) {
    const std::string word = value.is_string() ? value.get<std::string>() : "";
    const std::string near = nearest(word, first->shape.choices);
    text = std::ranges::find(first->shape.choices, word) != first->shape.choices.end() ? word
           : near.empty()                                                              ? "…"
                                                                                       : near;
  } else if (value.is_primitive() && !value.is_null() && fits(value, first->shape)) {
    text = text_or_dump(value);
  }
  return "{" + first->name + ": " + text + "}";
}

/// Whether `text` looks like an expression without its ${{ }}: "range(1, 5)", "always()".
bool is_call(std::string_view text) {
  const size_t name = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  return text.ends_with(')') && name != text.npos && name > 0 && text[name] == '(';
}

/// Returns "[--exclusive]" if a single value was given where a list is required.
std::string list_of_one(const Json& value) {
  if (!value.is_string()) return "[" + value.dump() + "]";
  return "[" + join(split(value.get<std::string>(), ' '), ", ") + "]";
}

/// Translates a key of another tool into ours; other words are returned unchanged.
std::string our_word(const std::string& word) {
  constexpr std::string_view kWords =
      " shell=run script=run command=run comand=run depends_on=needs container=image "
      "strategy=matrix when=if"
      " jobs=steps vars=params time=walltime timeout=walltime ntasks=ranks threads=cpus_per_rank"
      " cores=cpus_per_rank cpus=cpus_per_rank"
      " batch_size=batch learning_rate=lr num_workers=loader_threads"
      " continue-on-error=allow_failure ";
  const size_t found = kWords.find(" " + word + "=");
  if (found == kWords.npos) return word;
  const size_t begin = found + word.size() + 2;
  return std::string(kWords.substr(begin, kWords.find(' ', begin) - begin));
}

}  // namespace

std::string advice_of(const Form& form, const std::string& text, const char* verb) {
  const std::string advice = form.advice != nullptr ? form.advice(text) : "";
  return advice.empty() ? std::string(verb) + " " + std::string(form.examples) : advice;
}

std::string hint_on_value(const Json& value, const Shape& shape) {
  if (value.is_string() && is_call(value.get_ref<const std::string&>()) &&
      shape.type != Shape::Type::Formed) {
    return "; write \"${{ " + value.get<std::string>() + " }}\"";
  }
  if (shape.type == Shape::Type::List && value.is_primitive() && !value.is_null()) {
    return "; write " + list_of_one(value);
  }
  if (shape.type == Shape::Type::Boolean && value.is_number()) {
    return value == 1 ? "; write true" : value == 0 ? "; write false" : "";
  }
  if (shape.type == Shape::Type::Formed && value.is_number() && shape.form->accepts(value.dump())) {
    return "; put it in quotes";
  }
  if (shape.type == Shape::Type::Formed) {
    return "; " + advice_of(*shape.form, text_or_dump(value));
  }
  if (shape.type == Shape::Type::Object || shape.type == Shape::Type::Map) {
    return "; write " + example_of(value, shape);
  }
  if (shape.type == Shape::Type::Text && value.is_primitive() && !value.is_null()) {
    return "; put it in quotes";
  }
  if (!value.is_string()) return "";
  const auto& text = value.get_ref<const std::string&>();
  const bool number = shape.type == Shape::Type::Integer || shape.type == Shape::Type::Number;
  if (number && number_from<double>(text)) return "; remove the quotes";
  if (shape.type != Shape::Type::Boolean) return "";
  if (text == "yes" || text == "on") return "; write true";
  if (text == "no" || text == "off") return "; write false";
  return "; an expression is written ${{ … }}";
}

std::vector<std::string> field_names(const Shape& shape) {
  std::vector<std::string> names;
  for (const Field& field : shape.fields) names.push_back(field.name);
  return names;
}

std::string hint_on_key(const std::string& key, const Shape& shape) {
  const std::string ours = our_word(key);
  if (find_field(shape, ours) != nullptr) return "; did you mean '" + ours + "'?";
  for (const Field& field : shape.fields) {
    const bool is_inside =
        field.shape.type == Shape::Type::Object && find_field(field.shape, ours) != nullptr;
    if (is_inside) return "; write " + field.name + ": {" + ours + ": …}";
  }
  return key == "partition" ? "; it belongs to the profile, as slurm: {partition: NAME}" : "";
}

}  // namespace dlflow
