#include "base/leaves.h"

#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("a batch has up to eight leaves of at least 32 samples, a power of two", "[leaves]") {
  CHECK(default_leaves(1) == 1);
  CHECK(default_leaves(63) == 1);
  CHECK(default_leaves(64) == 2);
  CHECK(default_leaves(127) == 2);
  CHECK(default_leaves(128) == 4);
  CHECK(default_leaves(4096) == 8);
  CHECK(num_leaves({128, 0, 3}) == 12);
  CHECK(num_leaves({128, 5, 2}) == 10);
}

TEST_CASE("ranks with given shares have equally many leaves, and at least one", "[leaves]") {
  CHECK(default_leaves(16, 1) == 1);
  CHECK(default_leaves(32, 2) == 2);
  CHECK(default_leaves(128, 2) == 4);
  CHECK(default_leaves(192, 3) == 6);
  CHECK(default_leaves(4096, 2) == 8);
  CHECK(default_leaves(4096, 3) == 6);
  CHECK(default_leaves(1024, 16) == 16);
  CHECK(num_leaves({48, 0, 2, 3}) == 6);
  CHECK(num_leaves({48, 5, 1, 3}) == 5);
  CHECK_FALSE(idle_ranks({24, 0, 1, 3}, 3));
}

TEST_CASE("ranks without leaves are reported with advice", "[leaves]") {
  CHECK_FALSE(idle_ranks({128, 0, 1}, 4));
  CHECK_FALSE(idle_ranks({128, 8, 1}, 8));
  CHECK_FALSE(idle_ranks({128, 0, 2}, 8));
  CHECK(idle_ranks({128, 0, 1}, 8) ==
        "4 of 8 ranks have nothing to do: a step has 4 leaves. All have work with 'precision: "
        "{leaves: 8}', or with 'batch: 256'");
  CHECK(idle_ranks({128, 2, 1}, 3) ==
        "1 of 3 ranks has nothing to do: a step has 2 leaves. All have work with 'precision: "
        "{leaves: 3}'");
  CHECK(idle_ranks({32, 0, 1}, 2) ==
        "1 of 2 ranks has nothing to do: a step has 1 leaf. All have work with 'precision: "
        "{leaves: 2}', or with 'batch: 64'");
  CHECK(idle_ranks({1024, 0, 1}, 16) ==
        "8 of 16 ranks have nothing to do: a step has 8 leaves. All have work with 'precision: "
        "{leaves: 16}'");
  CHECK(idle_ranks({128, 1, 2}, 5) ==
        "3 of 5 ranks have nothing to do: a step has 2 leaves. All have work with 'precision: "
        "{leaves: 3}'");
}

TEST_CASE("ranks without samples are reported with advice", "[leaves]") {
  CHECK_FALSE(idle_ranks({8, 8, 1}, 8));
  CHECK_FALSE(idle_ranks({4, 8, 1}, 4));
  CHECK(idle_ranks({4, 8, 1}, 8) ==
        "4 of 8 ranks have nothing to do: a step has 4 samples in 8 leaves. All have work with "
        "'precision: {leaves: 8}' and 'batch: 8' or more");
  CHECK(idle_ranks({5, 8, 1}, 5) ==
        "1 of 5 ranks has nothing to do: a step has 5 samples in 8 leaves. All have work with "
        "'precision: {leaves: 5}'");
  CHECK(idle_ranks({4, 0, 1}, 8) ==
        "7 of 8 ranks have nothing to do: a step has 1 leaf. All have work with 'batch: 256'");
  CHECK(idle_ranks({4, 0, 1}, 12) ==
        "11 of 12 ranks have nothing to do: a step has 1 leaf. All have work with 'precision: "
        "{leaves: 12}' and 'batch: 12' or more");
}
