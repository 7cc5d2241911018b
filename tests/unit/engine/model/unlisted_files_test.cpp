#include "engine/model/unlisted_files.h"

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

TEST_CASE("files that a command names and that are not among its inputs are found", "[unlisted]") {
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
  using Files = std::vector<std::string>;
  CHECK(unlisted("python3 train.py --epochs 3; ./lib/prepare.sh") ==
        Files{"./lib/prepare.sh", "train.py"});
  CHECK(unlisted({"python3", "train.py"}) == Files{"train.py"});
  CHECK(unlisted("python3 train.py; lib/prepare.sh", {"train.py", "lib"}) == Files{});
  CHECK(unlisted("cat " + data + " > other.csv; /bin/sh -c 'cat /etc/hostname'") == Files{});
}
