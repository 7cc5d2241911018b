#include "engine/report/style.h"

#include <cmath>
#include <optional>

#include "base/text.h"
#include "tests/support/catch.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;

namespace {

/// Unsets the variables that decide on a style, until the test ends.
struct Environment {
  test::Variable term{"TERM", {}}, no_color{"NO_COLOR", {}}, all{"LC_ALL", {}},
      type{"LC_CTYPE", {}}, lang{"LANG", {}};
};

}  // namespace

TEST_CASE("states differ without colour and without UTF-8", "[style]") {
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

TEST_CASE("long text is broken at spaces, and a long word anywhere", "[style]") {
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

TEST_CASE("each state has the symbol and colour of its kind", "[style]") {
  const Style color{.color = true, .utf8 = false};
  CHECK(badge(JobState::Succeeded, color) == "\033[32m+ succeeded\033[0m");
  CHECK(badge(JobState::Cached, color) == "\033[32m= cached\033[0m");
  CHECK(badge(JobState::Running, color) == "\033[36m> running\033[0m");
  CHECK(badge(JobState::Cancelled, color) == "\033[33m! cancelled\033[0m");
  CHECK(badge(JobState::Skipped, color) == "\033[2m. skipped\033[0m");
  CHECK(paint(JobState::Lost, "x", color) == "\033[31mx\033[0m");
  CHECK(paint(RunState::Succeeded, "x", color) == "\033[32mx\033[0m");
  CHECK(paint(RunState::Failed, "x", color) == "\033[31mx\033[0m");
  CHECK(paint(RunState::Interrupted, "x", color) == "\033[33mx\033[0m");
  CHECK(paint(RunState::Running, "x", color) == "\033[36mx\033[0m");
  CHECK(bold("x", color) == "\033[1mx\033[0m");
  CHECK(dim("x", {}) == "x");
}

TEST_CASE("text that just fits is neither padded nor clipped", "[style]") {
  CHECK(pad("abc", 3) == "abc");
  CHECK(clip("abc", 3) == "abc");
  CHECK(clip("\033[31mabc\033[0m", 3) == "\033[31mabc\033[0m");
  CHECK(clip("abcdef\033[0", 3) == "abc\033[0");  // a colour that was cut off
  CHECK(pad("ab\033[0", 4) == "ab\033[0  ");
  CHECK(clip("é✔ü", 1) == "é");
}

TEST_CASE("a name is broken after a comma, or else at the end of the line", "[style]") {
  using Lines = std::vector<std::string>;
  CHECK(wrap_name("train[lr=0.1,n=2]", 20) == Lines{"train[lr=0.1,n=2]"});
  CHECK(wrap_name("train[lr=0.1,n=2]", 17) == Lines{"train[lr=0.1,n=2]"});
  CHECK(wrap_name("train[lr=0.1,n=2]", 15) == Lines{"train[lr=0.1,", "n=2]"});
  CHECK(wrap_name("abcdefgh", 3) == Lines{"abc", "def", "gh"});
  CHECK(wrap_name(",abcd", 3) == Lines{",ab", "cd"});
  CHECK(wrap_name("abcdeäö", 6) == Lines{"abcde", "äö"});  // no character is cut
  CHECK(wrap_name("aäö", 2) == Lines{"a", "äö"});
  CHECK(wrap_name("a,bcd", 3) == Lines{"a,", "bcd"});
}

TEST_CASE("text is broken after a comma only near the end of the line", "[style]") {
  CHECK(wrap("abcd, efghi", 6) == std::vector<std::string>{"abcd,", "efghi"});
  CHECK(wrap("abc, e fghi", 7) == std::vector<std::string>{"abc, e", "fghi"});    // 3 of 7
  CHECK(wrap("abcd, e fgh", 7) == std::vector<std::string>{"abcd, e", "fgh"});    // 4 of 7
  CHECK(wrap("abcd, ef gh", 6) == std::vector<std::string>{"abcd,", "ef gh"});    // 4 of 6
  CHECK(wrap("abcde, e fgh", 8) == std::vector<std::string>{"abcde, e", "fgh"});  // 5 of 8
  CHECK(wrap(" abcdef", 3) == std::vector<std::string>{" ab", "cde", "f"});
  CHECK(wrap("äöü✔éà", 4) == std::vector<std::string>{"äöü✔", "éà"});
  CHECK(wrap("abc def", 3) == std::vector<std::string>{"abc", "def"});
}

TEST_CASE("an empty bar has no tip, and neither has a full one", "[style]") {
  CHECK(progress_bar(0, 4, {.utf8 = false}) == "----");
  CHECK(progress_bar(0.25, 4, {.utf8 = false}) == "=>--");
  CHECK(progress_bar(NAN, 4, {.utf8 = false}) == "----");
  CHECK(progress_bar(0.5, 4, {}) == "━━╺━");
  CHECK(progress_bar(0.5, 2, {.color = true, .utf8 = false}) == "\033[36m=\033[0m\033[2m>\033[0m");
}

TEST_CASE("colour is for terminals, unless a variable decides otherwise", "[style]") {
  const Environment environment;
  const test::PseudoTerminal terminal(24, 132);
  const test::TempDir folder;
  const FileDescriptor file(::open(folder.write("f", "").c_str(), O_WRONLY));
  const auto colored = [&](int descriptor, ColorChoice choice = ColorChoice::Auto) {
    return detect_style(descriptor, choice).color;
  };
  environment.term.set("xterm");
  CHECK(is_terminal(terminal.descriptor()));
  CHECK_FALSE(is_terminal(file.get()));
  CHECK(colored(terminal.descriptor()));
  CHECK_FALSE(colored(file.get()));
  CHECK(colored(file.get(), ColorChoice::Always));
  CHECK_FALSE(colored(terminal.descriptor(), ColorChoice::Never));
  environment.no_color.set("");
  CHECK(colored(terminal.descriptor()));
  environment.no_color.set("1");
  CHECK_FALSE(colored(terminal.descriptor()));
  CHECK(colored(terminal.descriptor(), ColorChoice::Always));
  environment.no_color.set({});
  environment.term.set("dumb");
  CHECK_FALSE(colored(terminal.descriptor()));
  environment.term.set({});
  CHECK_FALSE(colored(terminal.descriptor()));
}

TEST_CASE("a table is as wide as its terminal, above a minimum", "[style]") {
  CHECK(detect_style(test::PseudoTerminal(24, 132).descriptor()).width == 132);
  CHECK(detect_style(test::PseudoTerminal(24, 40).descriptor()).width == 40);
  CHECK(detect_style(test::PseudoTerminal(24, 39).descriptor()).width == 80);
  const test::TempDir folder;
  const FileDescriptor file(::open(folder.write("f", "").c_str(), O_WRONLY));
  CHECK(detect_style(file.get()).width == 80);
}

TEST_CASE("the first locale variable that is set decides whether symbols are shown", "[style]") {
  const Environment environment;
  using Value = std::optional<std::string>;
  const auto utf8 = [&](const Value& all, const Value& type, const Value& lang) {
    environment.all.set(all);
    environment.type.set(type);
    environment.lang.set(lang);
    return detect_style(-1).utf8;
  };
  CHECK(utf8({}, {}, {}));
  CHECK(utf8("", "", ""));
  CHECK_FALSE(utf8({}, {}, "C"));
  CHECK(utf8({}, {}, "de_DE.UTF-8"));
  CHECK(utf8({}, "C.utf8", "C"));
  CHECK_FALSE(utf8("C", "C.utf8", "C.utf8"));
  CHECK_FALSE(utf8("", "C", "C.utf8"));
}
