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

TEST_CASE("a variable that a script sets in any way is not read from outside", "[script]") {
  CHECK(variables_read("A+=1; echo $A") == Names{});
  CHECK(variables_read("mapfile  LINES; declare B; local C; echo $LINES $B $C") == Names{});
  CHECK(variables_read("echo A $A; cat B=$B") == Names{"A"});
  CHECK(variables_read("xread A; echo $A") == Names{"A"});
  CHECK(variables_read("echo $A=1") == Names{"A"});
  CHECK(variables_read("$A_1=2 ${B}") == Names{"A_1", "B"});
  CHECK(variables_read("A=$A") == Names{});
  CHECK(variables_read("for") == Names{});
  CHECK(variables_read("=$X") == Names{"X"});
}

TEST_CASE("a dollar is not always a variable", "[script]") {
  CHECK(variables_read("$$A") == Names{});  // the shell's number, and an A
  CHECK(variables_read("$$$A") == Names{"A"});
  CHECK(variables_read("$A") == Names{"A"});
  CHECK(variables_read("$A$B") == Names{"A", "B"});
  CHECK(variables_read("${") == Names{});
  CHECK(variables_read("") == Names{});
  CHECK(variables_read("$é $1A ${2}") == Names{});
}
