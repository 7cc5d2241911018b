#include "engine/batch/batch_job.h"
#include "tests/support/catch.h"

using namespace dlflow;

using Tasks = std::vector<uint32_t>;

TEST_CASE("neighbours become a range", "[slurm]") {
  CHECK(format_array_range(Tasks{}).empty());
  CHECK(format_array_range(Tasks{5}) == "5");
  CHECK(format_array_range(Tasks{0, 1, 2, 3, 4, 7}) == "0-4,7");
  CHECK(format_array_range(Tasks{0, 1, 3, 5, 6, 7}) == "0,1,3,5-7");
  CHECK(format_array_range(Tasks{4294967294, 4294967295}) == "4294967294,4294967295");
}

TEST_CASE("a range of tasks is read as squeue and sacct print it", "[slurm]") {
  CHECK(parse_array_range("[3-9%2]", 100) == Tasks{3, 4, 5, 6, 7, 8, 9});
  CHECK(parse_array_range("[1,3-5]", 100) == Tasks{1, 3, 4, 5});
  CHECK(parse_array_range("0-10:5", 100) == Tasks{0, 5, 10});
  CHECK(parse_array_range("[7]", 100) == Tasks{7});
}

TEST_CASE("the rest of a cut-off list of tasks is read", "[slurm]") {
  CHECK(parse_array_range("[1-3,5,...]", 100) == Tasks{1, 2, 3, 5});
  CHECK(parse_array_range("[1-3,", 100) == Tasks{1, 2, 3});
  CHECK(parse_array_range("[1-", 100).empty());
  CHECK(parse_array_range("", 100).empty());
  CHECK(parse_array_range("[5-2]", 100).empty());
  CHECK(parse_array_range("[0-9:0]", 100).empty());
}

TEST_CASE("an endless range stops at the given limit", "[slurm]") {
  CHECK(parse_array_range("[0-4294967295]", 3) == Tasks{0, 1, 2});
  CHECK(parse_array_range("[4294967295-4294967295]", 3) == Tasks{4294967295});
}
