#include "engine/model/script_variables.h"

#include "tests/support/catch.h"

using namespace dlflow;

using Names = std::set<std::string>;

TEST_CASE("a script reads the variables that it names and does not set", "[script]") {
  CHECK(variables_read("cp \"$DATA/x\" ${SCRATCH}/x; echo ${LIST[0]} ${A:-b}") ==
        Names{"A", "DATA", "LIST", "SCRATCH"});
  CHECK(variables_read("out=1; echo $out; for f in *; do echo $f; done; read line; echo $line") ==
        Names{});
  CHECK(variables_read("export X=1\necho $X $Y") == Names{"Y"});
  CHECK(variables_read("echo $$ $1 $? $# $@ $(pwd) $PWD $RANDOM $BASH_SOURCE 5$ $") == Names{});
}
