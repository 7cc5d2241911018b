#include "engine/model/unlisted_files.h"

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

TEST_CASE("files that a command names without declaring them as inputs are found", "[unlisted]") {
  const test::TempDir folder;
  folder.write("train.py", "");
  folder.write("lib/prepare.sh", "");
  const std::string data = folder.write("data.csv", "").string();
  const auto unlisted = [&](const Json& command, std::vector<std::string> inputs = {}) {
    Step step;
    step.run = Template(command);
    step.inputs = std::move(inputs);
    step.data = {{data, true}};
    return unlisted_files(step, folder.path());
  };
  using Files = std::vector<UnlistedFile>;
  CHECK(unlisted("python3 train.py --epochs 3; ./lib/prepare.sh") ==
        Files{{"./lib/prepare.sh"}, {"train.py"}});
  CHECK(unlisted({"python3", "train.py"}) == Files{{"train.py"}});
  for (const char* all : {".", "./"}) {
    CHECK(unlisted({"python3", "train.py"}, {all}) == Files{});
  }
  CHECK(unlisted("python3 train.py; lib/prepare.sh", {"train.py", "lib"}) == Files{});
  CHECK(unlisted("cat " + data + " > other.csv; /bin/sh -c 'cat /etc/hostname'") == Files{});
}

TEST_CASE("files that a Python script reads without declaring them are found", "[unlisted]") {
  const test::TempDir folder;
  folder.write("code/train.py", "from model import Model\nimport nets\n");
  folder.write("code/model.py", "");
  folder.write("code/nets/__init__.py", "");
  Step step;
  step.run = Template(Json{"python3", "code/train.py"});
  step.inputs = {"code/train.py"};
  using Files = std::vector<UnlistedFile>;
  CHECK(unlisted_files(step, folder.path()) ==
        Files{{"code/model.py", "train.py"}, {"code/nets", "train.py"}});
  step.inputs = {"code/"};
  CHECK(unlisted_files(step, folder.path()) == Files{});
}

TEST_CASE("a program elsewhere, as in a virtual environment, is not an input", "[unlisted]") {
  const test::TempDir folder;
  const test::TempDir elsewhere;
  const auto program = elsewhere.write_program("venv/bin/python", "");
  Step step;
  step.run = Template(Json{program.string(), "-c", "pass"});
  CHECK(unlisted_files(step, folder.path()).empty());

  const std::string data = elsewhere.write("data.csv", "");
  step.run = Template(Json{program.string(), data});
  CHECK(unlisted_files(step, folder.path()) == std::vector<UnlistedFile>{{data}});
}
