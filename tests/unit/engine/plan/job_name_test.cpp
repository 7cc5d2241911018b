#include "engine/plan/job.h"
#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("a job is named by its name, by its step, or with its axes in any order", "[plan]") {
  CHECK(means_job("train[lr=0.1,width=64]", "train[lr=0.1,width=64]"));
  CHECK(means_job("train[width=64,lr=0.1]", "train[lr=0.1,width=64]"));
  CHECK(means_job("train[width=64, lr=0.1]", "train[lr=0.1,width=64]"));
  CHECK(means_job("train", "train[lr=0.1,width=64]"));
  CHECK(means_job("data", "data"));
}

TEST_CASE("a similar name does not match a job", "[plan]") {
  for (const char* word : {"train[lr=0.1]", "train[lr=0.2,width=64]", "trai", "train[", "train[]",
                           "test[width=64,lr=0.1]", "train[width=64,lr=0.1", ""}) {
    INFO(word);
    CHECK_FALSE(means_job(word, "train[lr=0.1,width=64]"));
  }
  CHECK_FALSE(means_job("data[a=1]", "data"));
}
