#include "engine/plan/loading.h"

#include "base/process.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace std::string_literals;

namespace {

const std::string kAbsent = "; load its module in `setup:` of the profile, or install it";
const std::string kTooOld =
    "; this system is older than the one that it was built for: build it here, or run the step in "
    "an `image:`";

}  // namespace

TEST_CASE("a missing library is reported with the program that needs it and advice", "[loading]") {
  CHECK(loading_problem("/runs/w-1/bin/dlflow-train: error while loading shared libraries: "
                        "libmpi.so.40: cannot open shared object file: No such file or directory\n"
                        "mpirun: it ended\n") ==
        "libmpi.so.40, which dlflow-train needs, is not found" + kAbsent);
  CHECK(loading_problem("\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\tlibmpi.so.40 => not found\n"
                        "\tlibdnnl.so.2 => not found\n\tlibmpi.so.40 => not found\n") ==
        "libdnnl.so.2 is not found, and libmpi.so.40 is not found" + kAbsent);
  CHECK(loading_problem("error: version 2 of data not found\nname => found\n"
                        "a: version `x' not found (required by y)")
            .empty());
}

TEST_CASE("an outdated library is reported with the found and the required version", "[loading]") {
  const test::TempDir folder;
  const std::string library =
      folder.write("libc.so.6", "GLIBC_2.9\0GLIBC_2.31\0GLIBC_2.4\0GLIBC_PRIVATE"s);
  const auto line = [&](const std::string& version) {
    return "bin/train: " + library + ": version `" + version +
           "' not found (required by /x/bin/dlflow-train)\n";
  };
  CHECK(loading_problem(line("GLIBC_2.33") + line("GLIBC_2.34") + line("GLIBC_2.32")) ==
        "dlflow-train needs version GLIBC_2.34 of libc.so.6, whose newest is GLIBC_2.31" + kTooOld);
  CHECK(
      loading_problem("\tliba.so => not found\n" + line("GLIBC_2.33")) ==
      "liba.so is not found, and dlflow-train needs version GLIBC_2.33 of libc.so.6, whose newest "
      "is GLIBC_2.31" +
          kTooOld);
  CHECK(loading_problem(line("GLIBCXX_3.4.30")) ==
        "dlflow-train needs version GLIBCXX_3.4.30 of libc.so.6" + kTooOld);
}

TEST_CASE("a program that can be loaded is accepted without running it", "[loading]") {
  const test::TempDir folder;
  CHECK(loading_problem_of("/bin/sh", current_environment()).empty());
  CHECK(loading_problem_of(folder.write("text", "no program"), current_environment()).empty());
}

TEST_CASE("the first missing library of the loader is named", "[loading]") {
  const char* const known[] = {"libnone.so.7", "libc.so.6"};
  const char* const unknown[] = {"libnone.so.7"};
  CHECK(first_found(known, "/bin/sh", current_environment()) == "libc.so.6");
  CHECK(first_found(unknown, "/bin/sh", current_environment()).empty());
}
