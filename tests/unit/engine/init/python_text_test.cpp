#include "engine/init/python_text.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("the arguments of a call are found across lines, brackets and quotes", "[init]") {
  const std::string text =
      "torch.save({\n  'a)': f(1, 2),\n}, 'x.pt')\nmytorch.save(1)\ntorch.saved(2)";
  const std::vector<std::string> calls = calls_of(text, "torch.save");
  REQUIRE(calls.size() == 1);
  CHECK(argument(calls[0], "f", 1) == "'x.pt'");
  CHECK(argument(calls[0], "f", 2).empty());
  CHECK(argument("model, f='y.pt'", "f", 1) == "'y.pt'");
  CHECK(calls_of("torch.save(", "torch.save") == std::vector<std::string>{""});
  CHECK(calls_of("torch.save", "torch.save").empty());
}

TEST_CASE("a path that a program computes becomes a pattern", "[init]") {
  const std::string text = "FOLDER = 'ckpt'\nif FOLDER == 'no': pass\n";
  const auto check = [&](const std::string& expression, const std::string& pattern) {
    CAPTURE(expression);
    CHECK(path_pattern(expression, text) == pattern);
  };
  check("'ckpt/last.pt'", "ckpt/last.pt");
  check("f'ckpt/{epoch:03d}.pt'", "ckpt/*.pt");
  check("'ckpt/%d.pt' % epoch", "ckpt/*.pt");
  check("'ckpt/e' + str(epoch) + '.pt'", "ckpt/e*.pt");
  check("os.path.join('ckpt', 'last.pt')", "ckpt/last.pt");
  check("os.path.join(FOLDER, f'{n}.pt')", "ckpt/*.pt");
  check("Path(FOLDER) / 'last.pt'", "ckpt/last.pt");
  check("FOLDER + '/last.pt'", "ckpt/last.pt");
  check("args.out + '/last.pt'", "*/last.pt");
  check("os.path.join(args.out, 'last.pt')", "/last.pt");
  check("args.out", "");
  check("", "");
  check("'", "");
}
