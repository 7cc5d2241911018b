#include "engine/supervisor/redact.h"

#include <random>

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

Secrets secrets_of(const std::vector<std::string>& values) {
  Secrets secrets;
  for (const std::string& value : values)
    secrets.emplace("S" + std::to_string(secrets.size()), value);
  return secrets;
}

/// Returns `text` after a stream in pieces that end at `cuts`.
std::string stream(const std::vector<std::string>& values, const std::string& text,
                   const std::vector<size_t>& cuts) {
  Redactor redactor(secrets_of(values));
  std::string out;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    out += redactor.next(std::string_view(text).substr(begin, cut - begin));
    begin = cut;
  }
  out += redactor.next(std::string_view(text).substr(begin));
  return out += redactor.rest();
}

/// Computes the expected output naively: every byte of every occurrence is hidden, and so is a
/// beginning of a value, of four bytes or more, at the end.
std::string expected(const std::vector<std::string>& values, const std::string& text) {
  std::vector<bool> hidden(text.size() + 1, false);
  for (const std::string& value : values) {
    for (size_t at = text.find(value); at != std::string::npos; at = text.find(value, at + 1)) {
      std::fill_n(hidden.begin() + long(at), value.size(), true);
    }
    for (size_t size = 4; size < value.size() && size <= text.size(); ++size) {
      if (!text.ends_with(value.substr(0, size))) continue;
      std::fill_n(hidden.begin() + long(text.size() - size), size, true);
    }
  }
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!hidden[at]) {
      out += text[at];
    } else if (at == 0 || !hidden[at - 1]) {
      out += "***";
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a value is hidden at any cut of the stream", "[redact]") {
  const std::string text = "key=hunter2! twice hunter2hunter2, hunter without, 2hunter2";
  const std::string wanted = "key=***! twice ***, hunter without, 2***";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      REQUIRE(stream({"hunter2"}, text, {first, second}) == wanted);
    }
  }
  std::vector<size_t> everywhere(text.size());
  for (size_t at = 0; at < text.size(); ++at) everywhere[at] = at;
  CHECK(stream({"hunter2"}, text, everywhere) == wanted);
}

TEST_CASE("overlapping values, and those with a common beginning, are hidden completely",
          "[redact]") {
  CHECK(stream({"abcd1234", "1234wxyz"}, "-abcd1234wxyz-", {}) == "-***-");
  CHECK(stream({"abcd", "abcdef"}, "abcdefg abcdg abcd", {}) == "***g ***g ***");
  CHECK(stream({"abcd", "abcdef"}, "abcdefg", {4}) == "***g");
  CHECK(stream({"abab"}, "ababab c", {}) == "*** c");
  CHECK(stream({"abcdef", "cd01"}, "abcd01", {3}) == "ab***");
}

TEST_CASE("a random stream is redacted as by a naive search", "[redact]") {
  std::mt19937 random(20261121);
  const auto number = [&random](size_t below) { return size_t(random()) % below; };
  const auto word = [&](size_t size) {
    std::string text;
    while (text.size() < size) text += char('a' + number(2));  // so that many parts are equal
    return text;
  };
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> values;
    for (size_t count = 1 + number(3); count > 0; --count) values.push_back(word(4 + number(5)));
    const std::string text = word(number(40));
    std::vector<size_t> cuts;
    for (size_t at = number(4); at < text.size(); at += number(6)) cuts.push_back(at);
    INFO("values " << Json(values) << ", text " << text << ", cuts " << Json(cuts));
    REQUIRE(stream(values, text, cuts) == expected(values, text));
  }
}

TEST_CASE("only the beginning of a value is held back", "[redact]") {
  Redactor redactor(secrets_of({"hunter2"}));
  CHECK(redactor.next("50% hu") == "50% ");
  CHECK(redactor.next("h") == "hu");
  CHECK(redactor.next("\n") == "h\n");
  CHECK(redactor.rest().empty());
}

TEST_CASE("held-back text comes at the end, unless it is likely half a value", "[redact]") {
  CHECK(stream({"hunter2"}, "hun", {}) == "hun");
  CHECK(stream({"hunter2"}, "say hunte", {}) == "say ***");
  CHECK(Redactor(secrets_of({"hunter2"})).text("say hunte") == "say hunte");
}

TEST_CASE("bytes of any kind are kept", "[redact]") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += char(byte);
  CHECK(stream({"hunter2"}, all, {100}) == all);
  CHECK(stream({"p\xe4ss\xff"},
               "\xff"
               "p\xe4ss\xff\xe4",
               {3}) == "\xff***\xe4");
  CHECK(Redactor().text(all) == all);
}

TEST_CASE("values are removed from texts and keys of JSON, which stays valid", "[redact]") {
  const Redactor redactor(secrets_of({"say \"hi\"", "1234"}));
  const Json dirty = {{"a", {"x say \"hi\"", 1234, nullptr}}, {"key 1234", {{"b", true}}}};
  const Json clean = {{"a", {"x ***", 1234, nullptr}}, {"key ***", {{"b", true}}}};
  CHECK(redactor.json(dirty) == clean);
  CHECK(redactor.json(clean) == clean);
}
