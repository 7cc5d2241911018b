#include "engine/report/explain_table.h"

#include "tests/support/catch.h"
#include "tests/support/report_values.h"

using namespace dlflow;
using namespace dlflow::test;

namespace {

Explanation explained(const JobName& job, Action verdict, const std::string& reason,
                      const std::string& from = "") {
  Explanation made;
  made.job = job;
  made.verdict = verdict;
  made.from = from;
  made.reason = reason;
  return made;
}

}  // namespace

TEST_CASE("each job has its verdict and the reason", "[explain]") {
  const std::vector<Explanation> jobs = {
      explained("data", Action::Reuse, "nothing relevant changed", "demo-7f3a"),
      explained("train", Action::Run, "parameter epochs: 3 → 30"),
      explained("evaluate", Action::DecideLater, "decided once its parents are done")};
  CHECK(explain_table(jobs, kPlain) ==
        "data      reused from demo-7f3a  nothing relevant changed\n"
        "train     runs                   parameter epochs: 3 → 30\n"
        "evaluate  may be reused          decided once its parents are done\n");
  CHECK(explain_table({}, kPlain).empty());
  Explanation ended = jobs[2];
  ended.outcome = "ran";
  CHECK(explain_table({{ended}}, kPlain) == "evaluate  ran  decided once its parents are done\n");
}

TEST_CASE("elements with the same answer share a line, others do not", "[explain]") {
  const std::vector<Explanation> jobs = {explained("fit[lr=1]", Action::Run, "forced"),
                                         explained("fit[lr=2]", Action::Run, "forced"),
                                         explained("fit[lr=3]", Action::Run, "new"),
                                         explained("fit[lr=4]", Action::Reuse, "new"),
                                         explained("train[lr=1]", Action::Reuse, "new"),
                                         explained("train[lr=2]", Action::Reuse, "new"),
                                         explained("train[lr=3]", Action::Reuse, "new"),
                                         explained("best", Action::Reuse, "new")};
  CHECK(explain_table(jobs, kPlain) ==
        "fit x2     runs          forced\n"
        "fit[lr=3]  runs          new\n"
        "fit[lr=4]  reused from   new\n"
        "train x3   reused from   new\n"
        "best       reused from   new\n");
}

TEST_CASE("a long reason continues in its own column", "[explain]") {
  const std::vector<Explanation> jobs = {
      explained("train", Action::Run, "one two three four five six seven eight nine ten")};
  // 5 + 2 + 4 + 2 columns stand before the reason.
  CHECK(explain_table(jobs, {.width = 34}) ==
        "train  runs  one two three four\n"
        "             five six seven eight\n"
        "             nine ten\n");
  const std::string narrow =
      "train  runs  one two three four\n"
      "             five six seven eight\n"
      "             nine ten\n";
  CHECK(explain_table(jobs, {.width = 33}) == narrow);
  CHECK(explain_table(jobs, {.width = 10}) == narrow);
}
