#pragma once

#include <initializer_list>
#include <string>

#include "tests/support/catch.h"

namespace dlflow::test {

/// A text, and what a function has to make of it.
template <typename Answer>
struct Answered {
  std::string text;
  Answer answer;
};

/// Checks what `function` makes of each text.
template <typename Answer = std::string, typename Function>
void check_answers(Function function, std::initializer_list<Answered<Answer>> cases) {
  for (const Answered<Answer>& given : cases) {
    INFO(given.text);
    CHECK(function(given.text) == given.answer);
  }
}

/// Checks that `function` throws at each text, and that the message contains the answer.
template <typename Function>
void check_refusals(Function function, std::initializer_list<Answered<std::string>> cases) {
  for (const Answered<std::string>& given : cases) {
    INFO(given.text);
    CHECK_THROWS_WITH(function(given.text), Catch::Contains(given.answer));
  }
}

/// Checks that what `function` says of each text contains the answer.
template <typename Function>
void check_mentions(Function function, std::initializer_list<Answered<std::string>> cases) {
  for (const Answered<std::string>& given : cases) {
    INFO(given.text);
    CHECK_THAT(function(given.text), Catch::Contains(given.answer));
  }
}

}  // namespace dlflow::test
