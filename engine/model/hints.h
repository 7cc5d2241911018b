#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/model/shape.h"

/// The hints at the end of messages about a wrong value or key.
namespace dlflow {

/// "write 90s, 20m, 4h": what `form` advises for `text`, or its examples after `verb`.
std::string advice_of(const Form& form, const std::string& text, const char* verb = "write");

/// Returns the remedy for a value of the wrong type ("; put it in quotes", "; write true"); empty
/// if none is certain.
std::string hint_on_value(const Json& value, const Shape& shape);

/// Returns "; did you mean 'run'?" for a key of another tool, "; write resources: {walltime: …}"
/// for a key of an inner mapping, otherwise an empty text.
std::string hint_on_key(const std::string& key, const Shape& shape);

std::vector<std::string> field_names(const Shape& shape);

}  // namespace dlflow
