#include "steps/predict/new_samples.h"

#include "base/error.h"
#include "runtime/text/token_samples.h"
#include "runtime/text/vocabulary.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::steps;
using test::TempDir;

namespace {

using Names = std::vector<std::string>;
using Numbers = std::vector<float>;

Model model_of(const std::string& input, const std::string& first = "flatten") {
  return parse_model(
      "name: m\ninput: [" + input + "]\nlayers:\n- " + first + "\n- linear: {features: 2}\n",
      "m.yaml");
}

Model table_model() { return model_of("2", "linear: {features: 3}"); }

Model text_model() {
  return model_of("4", "embedding: {vocabulary: 256, features: 4}\n- mean_pool");
}

NewSamples open(const std::filesystem::path& place, const Model& model, const Names& lines = {},
                const std::string& tokenizer = "") {
  return open_new_samples(place, model, lines, tokenizer);
}

/// The values of all samples, one after the other.
Numbers values_of(NewSamples& samples) {
  const Dataset dataset = samples.read({0, samples.names.size()}, samples.faults);
  CHECK(dataset.num_classes == 2);  // the loader compares labels with it
  Numbers all;
  for (size_t i = 0; i < dataset.size(); ++i) {
    const auto row = std::get<PixelRows<float>>(dataset.pixels)[i];
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

/// A picture of one grey value.
std::string grey(int width, int height, char value) {
  return "P5\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n" +
         std::string(size_t(width) * size_t(height), value);
}

}  // namespace

TEST_CASE("pictures at any depth become samples, and unreadable ones are named", "[predict]") {
  const TempDir dir;
  dir.write("in/sub/b.pgm", grey(2, 2, 9));
  dir.write("in/a.pgm", "P5\n2 2\n255\n\x01\x02\x03\x04");
  dir.write("in/liar.png", "no picture");
  dir.write("in/.hidden.pgm", grey(2, 2, 1));
  dir.write("in/notes.txt", "x");
  const Model model = model_of("1, 2, 2");
  NewSamples samples = open(dir.path() / "in", model);
  CHECK(samples.noun == "file");
  CHECK(samples.names == Names{"a.pgm", "liar.png", "sub/b.pgm"});
  CHECK(values_of(samples) == Numbers{1, 2, 3, 4, 0, 0, 0, 0, 9, 9, 9, 9});
  CHECK_THAT(samples.faults[1], Catch::Contains("liar.png: is neither a JPEG, a PNG nor"));
  NewSamples one = open(dir.path() / "in/sub/b.pgm", model);
  CHECK(one.names == Names{"b.pgm"});
}

TEST_CASE("a picture is read by its content, whatever its name says", "[predict]") {
  const TempDir dir;
  NewSamples samples = open(dir.write("a.png", grey(1, 1, 7)), model_of("1, 1, 1"));
  CHECK(values_of(samples) == Numbers{7});
}

TEST_CASE("pictures are resized and cropped as those of the training", "[predict]") {
  const TempDir dir;
  const auto file = dir.write("a.pgm", grey(8, 4, 50));
  const Model model = model_of("1, 2, 2");
  NewSamples samples = open(file, model, {"resize 2", "crop 2x2"});
  CHECK(values_of(samples) == Numbers{50, 50, 50, 50});
  NewSamples unknown = open(file, model);
  CHECK(values_of(unknown) == Numbers{0, 0, 0, 0});
  CHECK_THAT(
      unknown.faults[0],
      Catch::Contains("a.pgm: has 8x4 pixels, the network takes 2x2; the checkpoint records "
                      "no 'resize' of its training: ") &&
          Catch::Contains("write --origin 'resize 2x2', or in a step `origin: [resize 2x2]`"));
}

TEST_CASE("grey pictures become coloured, and coloured ones grey, as the network needs",
          "[predict]") {
  const TempDir dir;
  NewSamples colored = open(dir.write("a.pgm", grey(1, 1, 7)), model_of("3, 1, 1"));
  CHECK(values_of(colored) == Numbers{7, 7, 7});
  NewSamples single = open(dir.write("b.ppm", "P6\n1 1\n255\n\x64\x0a\x14"), model_of("1, 1, 1"));
  CHECK(values_of(single) == Numbers{38});  // 0.299 * 100 + 0.587 * 10 + 0.114 * 20
}

TEST_CASE("the recorded columns of a table are read in their order, and others ignored",
          "[predict]") {
  const TempDir dir;
  const auto file = dir.write("new.csv", "name,b,a\nx,1,2\ny,3,4\n");
  const Model model = table_model();
  NewSamples samples = open(file, model, {"feature a", "feature b", "target price"});
  CHECK(samples.noun == "row");
  CHECK(samples.names == Names{"1", "2"});
  CHECK(samples.targets == Names{"price"});
  CHECK(values_of(samples) == Numbers{2, 1, 4, 3});
  CHECK_THROWS_WITH(open(file, model, {"feature a", "feature c"}),
                    Catch::Contains("has no column 'c'; it has name, b, a"));
  CHECK_THROWS_WITH(open(file, model), Catch::Contains("which columns does the network read?") &&
                                           Catch::Contains("--origin 'feature COLUMN'"));
  CHECK_THROWS_WITH(open(dir.write("none.csv", "a,b\n"), model, {"feature a", "feature b"}),
                    Catch::Contains("none.csv: there are no rows in it"));
}

TEST_CASE("texts become bytes, cut at the length of the network", "[predict]") {
  const TempDir dir;
  dir.write("in/a.txt", "hi");
  dir.write("in/b.txt", "longer");
  const Model model = text_model();
  NewSamples files = open(dir.path() / "in", model, {}, Vocabulary::bytes().id());
  CHECK(files.names == Names{"a.txt", "b.txt"});
  const Dataset dataset = files.read({0, 2}, files.faults);
  CHECK(tokens_of(dataset, 0) == std::vector<uint32_t>{'h', 'i', 0});
  CHECK(tokens_of(dataset, 1) == std::vector<uint32_t>{'l', 'o', 'n', 'g'});
  const auto table = dir.write("new.csv", "id,note\n7,\"a, b\"\n");
  NewSamples rows = open(table, model, {"text note"});
  CHECK(rows.names == Names{"1"});
  CHECK(tokens_of(rows.read({0, 1}, rows.faults), 0) == std::vector<uint32_t>{'a', ',', ' ', 'b'});
  CHECK_THROWS_WITH(open(table, model), Catch::Contains("--origin 'text COLUMN'"));
  CHECK_THROWS_WITH(open(table, model, {}, "abc"),
                    Catch::Contains("only texts of bytes with a class each become tokens here"));
}

TEST_CASE("sources without samples, or of another kind than the network reads, are refused",
          "[predict]") {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() / "empty");
  CHECK_THROWS_WITH(open(dir.path() / "empty", model_of("1, 2, 2")),
                    Catch::Contains("empty: has no JPEG, PNG, PGM or PPM pictures"));
  CHECK_THROWS_WITH(open(dir.path() / "gone", model_of("1, 2, 2")),
                    Catch::Contains("gone: there is no such file or folder"));
  CHECK_THROWS_WITH(open(dir.path() / "empty", table_model()),
                    Catch::Contains("the network takes (B,2), not pictures; name a .csv"));
}
