#include "engine/report/style.h"

#include "base/text.h"
#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("states are told apart without colour and without UTF-8", "[style]") {
  CHECK(badge(JobState::Running, {.color = false, .utf8 = true}) == "▶ running");
  CHECK(badge(JobState::Running, {.color = false, .utf8 = false}) == "> running");
  CHECK(badge(JobState::Failed, {.color = true, .utf8 = false}) == "\033[31mx failed\033[0m");
}

TEST_CASE("text is padded and clipped by columns, not bytes or colours", "[style]") {
  CHECK(pad("✔", 3) == "✔  ");
  CHECK(pad("\033[31mx\033[0m", 2) == "\033[31mx\033[0m ");
  CHECK(clip("abcdef", 4) == "abcd");
  CHECK(clip("\033[31mabcdef\033[0m", 2) == "\033[31mab\033[0m");
  CHECK(clip("✔✔✔", 2) == "✔✔");
}

TEST_CASE("long text is broken at spaces, a long word anywhere", "[style]") {
  CHECK(wrap("loss is NaN at step 412", 12) ==
        std::vector<std::string>{"loss is NaN", "at step 412"});
  CHECK(wrap("accuracy 0.886, loss 0.307, 16,865 img/s", 36) ==
        std::vector<std::string>{"accuracy 0.886, loss 0.307,", "16,865 img/s"});
  CHECK(wrap("a, b and c and d", 14) == std::vector<std::string>{"a, b and c and", "d"});
  CHECK(wrap("abcdefgh", 3) == std::vector<std::string>{"abc", "def", "gh"});
  CHECK(wrap("", 10) == std::vector<std::string>{""});
}

TEST_CASE("a bar is as wide as asked, whatever the fraction", "[style]") {
  const double fraction = GENERATE(-1.0, 0.0, 0.01, 0.5, 1.0, 7.0);
  CHECK(display_width(progress_bar(fraction, 10, {})) == 10);
  CHECK(progress_bar(1.0, 4, {.utf8 = false}) == "====");
  CHECK(progress_bar(0.5, 4, {.utf8 = false}) == "==>-");
}
