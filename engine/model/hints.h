#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/model/shape.h"

/// The end of a message about a wrong value or key: the text to write instead.
namespace dlflow {

/// "write 90s, 20m, 4h": the advice of `form` about `text`, or its examples after `verb`.
std::string advice_of(const Form& form, const std::string& text, const char* verb = "write");

/// "; put it in quotes", "; write true": the remedy for a value of the wrong type; empty if none is
/// certain.
std::string hint_on_value(const Json& value, const Shape& shape);

/// "; did you mean 'run'?" for a key of other tools, "; write resources: {walltime: …}" for one of
/// a mapping inside; else empty.
std::string hint_on_key(const std::string& key, const Shape& shape);

std::vector<std::string> field_names(const Shape& shape);

}  // namespace dlflow
