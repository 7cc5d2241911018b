#include "engine/plan/job_name.h"

#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("a job's name consists of its step and its element", "[plan]") {
  const JobName element("train", "lr=0.1"), whole = "data";
  CHECK(element == "train[lr=0.1]");
  CHECK(element.step() == "train");
  CHECK(element.element() == "lr=0.1");
  CHECK(whole.step() == "data");
  CHECK(whole.element().empty());
}

TEST_CASE("a job is named by its name, by its step, or with its axes in any order", "[plan]") {
  const JobName job = "train[lr=0.1,width=64]";
  CHECK(job.is_meant_by("train[lr=0.1,width=64]"));
  CHECK(job.is_meant_by("train[width=64,lr=0.1]"));
  CHECK(job.is_meant_by("train[width=64, lr=0.1]"));
  CHECK(job.is_meant_by("train"));
  CHECK(JobName("data").is_meant_by("data"));
}

TEST_CASE("a similar name does not match a job", "[plan]") {
  const JobName job = "train[lr=0.1,width=64]";
  for (const char* word : {"train[lr=0.1]", "train[lr=0.2,width=64]", "trai", "train[", "train[]",
                           "test[width=64,lr=0.1]", "train[width=64,lr=0.1", ""}) {
    INFO(word);
    CHECK_FALSE(job.is_meant_by(word));
  }
  CHECK_FALSE(JobName("data").is_meant_by("data[a=1]"));
}
