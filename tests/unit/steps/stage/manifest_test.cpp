#include "steps/stage/manifest.h"

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::steps;
using Catch::Contains;

namespace {

const std::string kA(64, 'a');
const std::string kB(64, 'b');

}  // namespace

TEST_CASE("a manifest has the format of sha256sum", "[manifest]") {
  const Manifest manifest = parse_manifest(
      kA + "  x y\n" + std::string(64, 'B') + " *./d/z\r\n\\" + kA + "  back\\\\slash\n", "SUMS");
  CHECK(manifest == Manifest{{"back\\slash", kA}, {"d/z", kB}, {"x y", kA}});
}

TEST_CASE("line ends in names are escaped as by sha256sum", "[manifest]") {
  const Manifest manifest =
      parse_manifest("\\" + kA + "  ./a\\nb\\r\\\\n.txt\n" + kB + "  a\\nb\n", "SUMS");
  CHECK(manifest == Manifest{{"a\nb\r\\n.txt", kA}, {"a\\nb", kB}});
  Listing found;
  found["a\nb"] = {};
  CHECK_THROWS_WITH(compare(found, {{"c\n", kA}}, "X"),
                    "X does not match its manifest; missing: c\\n; not in it: a\\nb");
  CHECK_THROWS_WITH(parse_manifest("\\" + kA + "  a\\n/../b\n", "SUMS"),
                    "SUMS:1: 'a\\n/../b' is not a name below the folder");
  CHECK_THROWS_WITH(parse_manifest(kA + "  a\x1b[31m\n", "SUMS"),
                    "SUMS:1: 'a\\u001b[31m' is not a name below the folder");
}

TEST_CASE("a wrong line of a manifest is named", "[manifest]") {
  for (const std::string& line :
       {std::string("text"), kA, kA + " x", kA + "  ", kA + " ?x", kA.substr(1) + "   x",
        kA + "  ../x", kA + "  /x", kA + "  a/../x", kA + "  a//x"}) {
    CAPTURE(line);
    CHECK_THROWS_WITH(parse_manifest(kA + "  good\n" + line + "\n", "SUMS"), Contains("SUMS:2: "));
  }
  CHECK_THROWS_WITH(parse_manifest("\n", "SUMS"), Contains("lists no file"));
  CHECK_THROWS_WITH(parse_manifest(kA + "  x\n" + kB + "  x\n", "SUMS"), Contains("occurs twice"));
}

TEST_CASE("all differences are reported, up to a limit", "[manifest]") {
  const Manifest manifest = {{"both", kA}, {"gone", kA}, {"other", kA}};
  Listing found;
  found["both"].sha256 = kA;
  found["other"].sha256 = kB;
  found["link"].link_target = "both";
  for (int i = 0; i < 12; ++i) found["new" + std::to_string(i)].sha256 = kA;
  CHECK_THROWS_WITH(
      compare(found, manifest, "X"),
      "X does not match its manifest; missing: gone; not in it: new0, new1, new10, new11, new2, "
      "new3, new4, new5, new6, new7 and 2 more; changed: other");
  CHECK_NOTHROW(compare({{"both", {}}, {"gone", {}}, {"other", {}}}, manifest, "X"));
}
