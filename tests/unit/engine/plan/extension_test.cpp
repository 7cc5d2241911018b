#include "engine/plan/extension.h"

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "engine/plan/layout.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using Catch::Contains;
using test::parsed;
using test::plan_of;

namespace {

using Names = std::vector<std::string>;

const std::string kSplit = R"(
name: w
steps:
  split: {run: ./split, outputs: {parts: p.json}}
)";

const std::string kFan = kSplit + R"(  work:
    matrix: {part: "${{ steps.split.outputs.parts }}"}
    run: [./work, "${{ matrix.part }}"]
    resources: {cpus_per_rank: "${{ matrix.part }}"}
    outputs: {o: o}
  merge: {run: [./merge, "${{ join(steps.work.outputs.o, ' ') }}"]}
  other: {run: ./other, outputs: {l: l}}
  late: {matrix: {n: "${{ steps.other.outputs.l }}"}, run: ./late, needs: [work]}
  beside: {run: ./beside}
)";

Names job_names(const Plan& plan) {
  Names result;
  for (const PlannedJob& job : plan.jobs) result.push_back(job.name);
  return result;
}

Extension list_of(int number, const std::string& step, const std::string& output,
                  const Json& list) {
  return {.number = number,
          .step = step,
          .lists = {{output, values_of_list(list, "it")}},
          .hashes = {{output, sha256_hex(list.dump())}}};
}

ParentResult result_of(const std::string& step, const std::string& output, const Json& value) {
  ParentResult result;
  result.step = step;
  result.outputs = {{output, {{"value", value}, {"sha256", sha256_hex(value.dump())}}}};
  return result;
}

std::string refused_list(const std::string& text) {
  return test::error_of([&] { values_in_text(text, "output 'p'"); });
}

}  // namespace

TEST_CASE("until its list is known, one job stands for all elements of a step", "[extension]") {
  const Plan plan = plan_of(parsed(kFan));
  CHECK(job_names(plan) == Names{"split", "other", "beside", "work[part=?]", "merge", "late[n=?]"});
  CHECK(is_open(plan, 3));
  CHECK_FALSE(is_open(plan, 4));
  CHECK(plan.jobs[3].action == Action::DecideLater);
  CHECK(plan.jobs[3].cause == Cause::WaitsForList);
  CHECK(plan.graph.parents(3) == std::vector<JobRange>{{0, 1}});
  CHECK(plan.graph.parents(4) == std::vector<JobRange>{{3, 1}});
  CHECK(job_spec(plan, 0).lists == std::set<std::string>{"parts"});
  CHECK(job_spec(plan, 2).lists.empty());
}

TEST_CASE("the placeholder of unlisted elements is not counted as a job", "[extension]") {
  const Plan plan = plan_of(parsed(kFan));
  CHECK(count_of_jobs(plan) == "4 jobs and as many as `other` and `split` list");
  const Plan listed = extended(plan, list_of(1, "split", "parts", {2, 3, 4}));
  Plan partly_reused = listed;
  partly_reused.jobs[0].action = Action::Reuse;
  CHECK(count_of_jobs(partly_reused, false).starts_with("6 jobs and"));
  CHECK(count_of_jobs(listed) == "7 jobs and as many as `other` lists");
  CHECK(count_of_jobs(extended(listed, list_of(2, "other", "l", {5}))) == "8 jobs");
}

TEST_CASE("an extension does not renumber earlier jobs", "[extension]") {
  const Plan plan = plan_of(parsed(kFan));
  const Plan one = extended(plan, list_of(1, "split", "parts", {2, 3}));
  CHECK(job_names(one) ==
        Names{"split", "other", "beside", "work[part=2]", "work[part=3]", "merge", "late[n=?]"});
  CHECK(one.jobs[4].resources->cpus_per_rank == 3);
  CHECK(one.jobs[4].action == Action::DecideLater);
  CHECK(one.graph.parents(5) == std::vector<JobRange>{{3, 2}});
  const Plan two = extended(one, list_of(2, "other", "l", {"x"}));
  CHECK(job_names(two) ==
        Names{"split", "other", "beside", "work[part=2]", "work[part=3]", "merge", "late[n=x]"});
  CHECK(job_spec(two, 6).parents.size() == 3);
  // In the other order, a step that needs both comes with the later list.
  const Plan other = extended(plan, list_of(1, "other", "l", {"x"}));
  CHECK(job_names(extended(other, list_of(2, "split", "parts", {2}))) ==
        Names{"split", "other", "beside", "work[part=2]", "merge", "late[n=x]"});
}

TEST_CASE("values of a list are treated like values in the file", "[extension]") {
  const std::string text = kFan;
  const std::string open = "\"${{ steps.split.outputs.parts }}\"";
  std::string fixed = text;
  fixed.replace(fixed.find(open), open.size(), "[2, 3]");
  fixed.insert(fixed.find("    run: [./work"), "    needs: [split]\n");
  const Plan listed =
      extended(plan_of(parsed(text)), list_of(1, "split", "parts", Json::array({2, 3})));
  const Plan known = plan_of(parsed(fixed));
  for (const char* job : {"work[part=2]", "work[part=3]", "merge"}) {
    CHECK(fingerprint_base(listed, *find_job(listed, job)) ==
          fingerprint_base(known, *find_job(known, job)));
  }
}

TEST_CASE("a later list of a step replaces the earlier one", "[extension]") {
  const Plan one = extended(plan_of(parsed(kFan)), list_of(1, "split", "parts", {2, 3}));
  const Plan two = extended(one, list_of(2, "split", "parts", {3, 4}));
  CHECK(job_names(two) ==
        Names{"split", "other", "beside", "work[part=3]", "work[part=4]", "merge", "late[n=?]"});
  CHECK(two.extensions.size() == 1);
  CHECK(two.extensions[0].number == 2);
}

TEST_CASE("a result asks for an extension unless the plan already has its list", "[extension]") {
  const Plan plan = plan_of(parsed(kFan));
  const auto first = extension_for(plan, result_of("split", "parts", {2, 3}));
  REQUIRE(first);
  CHECK(first->number == 1);
  CHECK(first->lists.at("parts") == AxisValues{2, 3});
  const Plan one = extended(plan, *first);
  CHECK_FALSE(extension_for(one, result_of("split", "parts", {2, 3})));
  CHECK(extension_for(one, result_of("split", "parts", {3, 2})));  // the order of lists counts
  CHECK_THROWS_WITH(extension_for(plan, result_of("split", "parts", 3)),
                    Contains("output 'parts' is a number"));
  CHECK_THROWS_WITH(extension_for(plan, result_of("split", "other", {1})),
                    Contains("output 'parts' is missing"));
}

TEST_CASE("the file of a list is read only if it is unchanged since its step ended",
          "[extension]") {
  const test::TempDir folder;
  const std::string file = folder.write("p.json", "[1, 2]\n").string();
  const Plan plan = plan_of(parsed(kFan));
  ParentResult result;
  result.step = "split";
  result.outputs = {{"parts", {{"value", file}, {"sha256", sha256_hex("[1, 2]\n")}}}};
  const auto extension = extension_for(plan, result);
  REQUIRE(extension);
  CHECK(extension->lists.at("parts") == AxisValues{1, 2});
  folder.write("p.json", "[1, 3]\n");
  CHECK_THROWS_WITH(extension_for(plan, result), Contains("was changed after its step had ended"));
  CHECK_FALSE(extension_for(extended(plan, *extension), result));  // it was read before
}

TEST_CASE("an impossible element is named", "[extension]") {
  CHECK_THROWS_WITH(extended(plan_of(parsed(kFan)), list_of(1, "split", "parts", {1, 0})),
                    Contains("work[part=0]"));
  const std::string text = kSplit + R"(  get:
    matrix: {part: "${{ steps.split.outputs.parts }}"}
    uses: stage
    with: {sources: [{url: "${{ matrix.part }}"}]}
)";
  const Plan plan = plan_of(parsed(text));
  CHECK_NOTHROW(extended(plan, list_of(1, "split", "parts", {"https://a.org/b"})));
  CHECK_THROWS_WITH(extended(plan, list_of(1, "split", "parts", {"file:///etc/passwd"})),
                    Contains("reads file:///etc/passwd, which was not known before"));
}

TEST_CASE("a file that only a list would name is refused before the run", "[extension]") {
  const std::string text = kSplit + R"(  train:
    matrix: {net: "${{ steps.split.outputs.parts }}"}
    uses: train
    with: {model: "models/${{ matrix.net }}.yaml", data: /data, epochs: 1, lr: 1}
)";
  CHECK_THROWS_WITH(plan_of(parsed(text)),
                    Contains("with.model of step 'train' names a file, which must be known "
                             "before the run"));
}

TEST_CASE("an invalid list of values is refused with the reason", "[extension]") {
  CHECK(refused_list(R"(["a", 1, true, 2.5])") == "");
  CHECK(refused_list(R"([{"a": 1, "name": "x"}, {"a": 1, "name": "y"}])") == "");
  CHECK_THAT(refused_list("a\nb\n"), Contains("output 'p' is not JSON"));
  CHECK_THAT(refused_list("{}"), Contains("is a mapping, but an axis takes its values"));
  CHECK_THAT(refused_list("[]"), Contains("is an empty list"));
  CHECK_THAT(refused_list("[1, 2, 1]"), Contains("holds 1 twice"));
  CHECK_THAT(refused_list("[1, 1.0]"), Contains("twice"));
  CHECK_THAT(refused_list("[1, null]"), Contains("holds null as value 2"));
  CHECK_THAT(refused_list("[[1]]"), Contains("holds a list as value 1"));
  CHECK_THAT(refused_list(R"([{"a": 1}, 2])"), Contains("holds a mapping and a number"));
  CHECK_THAT(refused_list(R"([{"a": 1}, {"b": 1}])"), Contains("with different keys"));
  CHECK_THAT(refused_list(R"([{"a": 1}, {"a": 1, "b": 1}])"), Contains("with different keys"));
  CHECK_THAT(refused_list(R"([{}])"), Contains("an empty mapping"));
  CHECK_THAT(refused_list(R"([{"a b": 1}])"), Contains("the key 'a b'"));
  CHECK_THAT(refused_list(R"([{"name": "x", "a": 1}, {"name": "x", "a": 2}])"),
             Contains("two values that are called 'x'"));
  CHECK_THAT(refused_list("[\"a\\u0000b\"]"), Contains("a zero byte"));
  Json most = Json::array();
  for (size_t i = 0; i < kMaxListed; ++i) most.push_back(i);
  CHECK(refused_list(most.dump()) == "");
  most.push_back("one more");
  CHECK_THAT(refused_list(most.dump()), Contains("lists 10,001 values"));
}

TEST_CASE("an extension is written once, and read back with the current ones", "[extension]") {
  const test::TempDir run;
  CHECK(newest_extension(run.path()) == 0);
  CHECK(read_extensions(run.path()).empty());
  const Extension first = list_of(1, "a", "o", {1, 2});
  const Extension second = list_of(2, "b", "o", {"x"});
  const Extension third = list_of(3, "a", "o", {3});
  for (const Extension& extension : {first, second, third}) write_extension(run.path(), extension);
  CHECK(newest_extension(run.path()) == 3);
  CHECK(read_extensions(run.path()) == std::vector<Extension>{second, third});
  write_extension(run.path(), third);  // as by the successor of a killed engine
  CHECK_THROWS_AS(write_extension(run.path(), list_of(3, "a", "o", {4})), Error);
  CHECK(read_extensions(run.path()) == std::vector<Extension>{second, third});
  write_file_atomic(run.path() / "extensions" / "2.json", "{\"step\": 1}");
  CHECK_THROWS_WITH(read_extensions(run.path()), Contains("2.json is damaged"));
}
