#include "engine/model/python_modules.h"

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

TEST_CASE("files that a Python script reads beside it are found, also indirectly", "[unlisted]") {
  const test::TempDir folder;
  const auto script = folder.write("train.py",
                                   "import os, sys, model as m, torch\n"
                                   "from nets.big import Big\n"
                                   "from .relative import x\n"
                                   "exec(open('configurator.py').read())\n"
                                   "if True:\n"
                                   "    import late # now\n"
                                   "print('import printed', 'missing.py', \"../outside.py\")\n");
  for (const char* file : {"configurator.py", "late.py", "relative.py", "printed.py", "other.py",
                           "torch/README", "nets/small.py"}) {
    folder.write(file, "");
  }
  folder.write("model.py", "import train, losses\n");
  folder.write("losses.py", "import model\n");
  folder.write("nets/big.py", "import tools.of_nets\n");
  folder.write("tools/of_nets.py", "");
  using Modules = std::vector<PythonModule>;
  CHECK(python_modules(script) == Modules{{"configurator.py", "train.py"},
                                          {"late.py", "train.py"},
                                          {"losses.py", "model.py"},
                                          {"model.py", "train.py"},
                                          {"nets", "train.py"},
                                          {"relative.py", "train.py"},
                                          {"tools", "big.py"}});
  CHECK(python_modules(folder.path() / "other.py") == Modules{});
  CHECK(python_modules(folder.path() / "none.py") == Modules{});
}
