#pragma once

#include <initializer_list>
#include <string>

#include "tests/support/catch.h"

namespace dlflow::test {

/// A text, and the expected result of a function for it.
template <typename Answer>
struct Answered {
  std::string text;
  Answer answer;
};

/// Checks the result of `function` for each text.
template <typename Answer = std::string, typename Function>
void check_answers(Function function, std::initializer_list<Answered<Answer>> cases) {
  for (const Answered<Answer>& given : cases) {
    INFO(given.text);
    CHECK(function(given.text) == given.answer);
  }
}

/// Checks that `function` throws for each text, with a message that contains the answer.
template <typename Function>
void check_refusals(Function function, std::initializer_list<Answered<std::string>> cases) {
  for (const Answered<std::string>& given : cases) {
    INFO(given.text);
    CHECK_THROWS_WITH(function(given.text), Catch::Contains(given.answer));
  }
}

/// Checks that the result of `function` for each text contains the answer.
template <typename Function>
void check_mentions(Function function, std::initializer_list<Answered<std::string>> cases) {
  for (const Answered<std::string>& given : cases) {
    INFO(given.text);
    CHECK_THAT(function(given.text), Catch::Contains(given.answer));
  }
}

}  // namespace dlflow::test
