#include "engine/report/progress.h"

#include "engine/report/describe.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

TEST_CASE("progress is the last whole line", "[progress]") {
  const test::TempDir folder;
  const auto file = folder.write("metrics.jsonl", "{\"epoch\":1}\n{\"epoch\":2}\n{\"epo");
  CHECK(last_metrics(file)->at("epoch") == 2);
  CHECK_FALSE(last_metrics(folder.path() / "none").has_value());
  CHECK_FALSE(last_metrics(folder.write("empty", "")).has_value());
  CHECK_FALSE(last_metrics(folder.write("torn", "{\"epoch\":1")).has_value());
  CHECK_FALSE(last_metrics(folder.write("other", "hello\n")).has_value());
}

TEST_CASE("a long metrics file is read from its end", "[progress]") {
  const test::TempDir folder;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "{\"step\":" + std::to_string(i) + "}\n";
  CHECK(last_metrics(folder.write("metrics.jsonl", text))->at("step") == 4999);
}

TEST_CASE("training progress is told in two lines", "[describe]") {
  const Json progress = {{"epoch", 2}, {"epochs", 3},          {"progress", 0.64}, {"loss", 0.312},
                         {"ranks", 2}, {"images_per_s", 3980}, {"eta_s", 17.2}};
  const auto lines = describe_progress(progress, {.utf8 = false});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "epoch 2/3 ==========>----- 64%  loss 0.312");
  CHECK(lines[1] == "3,980 img/s on 2 ranks, 0:17 left");

  Json later = progress;
  later["noise_scale"] = 1250.0;
  CHECK(describe_progress(later, {.utf8 = false})[1] ==
        "3,980 img/s on 2 ranks, 0:17 left, noise scale 1,250");
}

TEST_CASE("progress with values of the wrong type is shown as far as it goes", "[describe]") {
  CHECK(describe_progress({{"epoch", "two"}, {"loss", nullptr}}, {}).empty());
  CHECK(describe_metrics(Json::array()).empty());
  CHECK(describe_metrics({{"bytes", 30931288}, {"files", 4}}) == "29.5 MiB staged, 4 files");
  CHECK(describe_metrics({{"wer", 0.125}}) == "wer 0.125");
}

TEST_CASE("a message or a metric's name of a program steers no terminal", "[describe][attack]") {
  const auto lines =
      describe_progress({{"message", "\033]0;title\a\u009b31m\u202egnp.exe"}}, {.utf8 = false});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "\\u001b]0;title\\u0007\\u009b31m\\u202egnp.exe");
  CHECK(describe_metrics({{"\033[2J", 1}}) == "\\u001b[2J 1");
}

TEST_CASE("numbers of a program that are beyond all bounds are shown as far as it goes",
          "[describe][attack]") {
  const double odd = GENERATE(1e300, -1e300);
  const Json progress = {{"progress", odd},     {"bytes", odd},       {"total_bytes", odd},
                         {"images_per_s", odd}, {"noise_scale", odd}, {"eta_s", odd}};
  for (const std::string& line : describe_progress(progress, {.utf8 = false})) {
    CHECK(line.size() < 200);
  }
}

TEST_CASE("metrics nested too deep are no progress", "[progress][attack]") {
  const test::TempDir folder;
  const std::string deep(4000, '[');  // what is read of a file
  CHECK_FALSE(last_metrics(folder.write("m", R"({"a":)" + deep + "\n")).has_value());
}
