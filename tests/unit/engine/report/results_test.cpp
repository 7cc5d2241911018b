#include "engine/report/results.h"

#include <sstream>

#include "base/text.h"
#include "tests/support/catch.h"
#include "tests/support/report_values.h"

using namespace dlflow;
using namespace dlflow::test;

namespace {

Result result_of(const std::string& run, const Json& matrix, const Json& metrics) {
  return {.run = run,
          .workflow = "sweep",
          .step = "train",
          .job = matrix.empty() ? "train" : JobName("train", matrix.dump()),
          .state = JobState::Succeeded,
          .params = {{"epochs", 3}},
          .matrix = matrix,
          .metrics = metrics};
}

std::vector<Result> sweep() {
  return {result_of("sweep-1", {{"lr", 0.05}}, {{"accuracy", 0.8931}, {"loss", 0.3}}),
          result_of("sweep-1", {{"lr", 0.5}}, {{"accuracy", 0.1}, {"loss", 2.25}}),
          result_of("sweep-1", {{"lr", 0.1}}, {{"accuracy", 0.9071}, {"loss", 0.2613}})};
}

std::vector<std::string> jobs(const std::vector<Result>& results) {
  std::vector<std::string> names;
  for (const Result& result : results) names.push_back(result.job);
  return names;
}

}  // namespace

TEST_CASE("a sweep is a table of axes and metrics", "[results]") {
  CHECK(results_table(sweep(), "", kPlain) ==
        "train\n"
        "lr    accuracy    loss\n"
        "0.05    0.8931     0.3\n"
        "0.5        0.1    2.25\n"
        "0.1     0.9071  0.2613\n");
}

TEST_CASE("a value with line breaks or colours keeps the table intact", "[results]") {
  const std::vector<Result> results = {result_of("s-1", {{"x", "a\nb"}}, {{"loss", 0.5}}),
                                       result_of("s-1", {{"x", "\033[31m"}}, {{"loss", 1}})};
  CHECK(results_table(results, "", kPlain) ==
        "train\n"
        "x           loss\n"
        "a\\nb         0.5\n"
        "\\u001b[31m     1\n");
}

TEST_CASE("the metric that sorts the rows comes first", "[results]") {
  std::vector<Result> results = sweep();
  sort_results(results, "loss", Order::BestFirst);
  CHECK(results_table(results, "loss", kPlain) ==
        "train\n"
        "lr      loss  accuracy\n"
        "0.1   0.2613    0.9071\n"
        "0.05     0.3    0.8931\n"
        "0.5     2.25       0.1\n"
        "best: train[{\"lr\":0.1}], loss 0.2613 (the smallest)\n");
}

TEST_CASE("numbers of each class come behind the others", "[results]") {
  const std::vector<Result> results = {
      result_of("a-1", Json::object(),
                {{"accuracy", 0.5}, {"accuracy_of_0", 0.25}, {"iou_of_sky", 0.5}, {"loss", 1}})};
  CHECK(split(results_table(results, "", kPlain), '\n').at(1) ==
        "accuracy  loss  accuracy_of_0  iou_of_sky");
}

TEST_CASE("jobs without a metric come last, whatever the order", "[results]") {
  std::vector<Result> results = sweep();
  results.insert(results.begin(), result_of("sweep-1", {{"lr", 9}}, Json::object()));
  results.front().state = JobState::Failed;
  for (const Order order : {Order::BestFirst, Order::WorstFirst}) {
    sort_results(results, "accuracy", order);
    CHECK(results.back().state == JobState::Failed);
  }
  const std::string table = results_table(results, "accuracy", kPlain);
  CHECK(split(table, '\n').at(1) == "lr    STATE      accuracy    loss");
  CHECK(split(table, '\n').at(5) == "9     failed            -       -");
}

TEST_CASE("an unknown metric is refused with the existing ones", "[results]") {
  std::vector<Result> results = sweep();
  const std::vector<std::string> before = jobs(results);
  CHECK_THROWS_WITH(sort_results(results, "accurracy", Order::BestFirst),
                    Catch::Contains("did you mean 'accuracy'?") && Catch::Contains("loss"));
  CHECK(jobs(results) == before);
}

TEST_CASE("differences between several runs are shown", "[results]") {
  std::vector<Result> results = {result_of("a-1", Json::object(), {{"accuracy", 0.5}}),
                                 result_of("a-2", Json::object(), {{"accuracy", 0.75}})};
  results[1].params["epochs"] = 30;
  CHECK(results_table(results, "", kPlain) ==
        "train\n"
        "RUN  epochs  accuracy\n"
        "a-1  3            0.5\n"
        "a-2  30          0.75\n");
}

TEST_CASE("metrics come in the order of interest", "[results]") {
  const Json metrics = {{"accuracy_of_trouser", 0.8},
                        {"accuracy", 0.9},
                        {"communication_wait_s", 3},
                        {"data_wait_s", 1},
                        {"f1", 0.85},
                        {"images_per_s", 700},
                        {"loss", 0.3},
                        {"my_number", 4}};
  std::vector<Result> results = {result_of("a-1", Json::object(), metrics)};
  const auto heading = [&](const std::string& first) {
    std::istringstream words(split(results_table(results, first, {.width = 200}), '\n').at(1));
    std::string text;
    for (std::string word; words >> word;) text += (text.empty() ? "" : " ") + word;
    return text;
  };
  CHECK(heading("") ==
        "accuracy loss f1 my_number communication_wait_s data_wait_s images_per_s "
        "accuracy_of_trouser");
  results.front().named = {"data_wait_s", "f1"};  // `select: min data_wait_s`
  CHECK(heading("").starts_with("data_wait_s f1 accuracy loss my_number"));
  CHECK(heading("loss").starts_with("loss data_wait_s f1 accuracy"));
}

TEST_CASE("metrics that a gate or a selection names are recognised", "[results]") {
  Workflow workflow;
  Step train, best;
  train.name = "train";
  train.require = {{"data_wait_s", "<", 9}};
  best.name = "best";
  best.with = Template(Json{{"select", "max f1"}, {"from", "${{ steps.train.outputs.model }}"}});
  workflow.steps = {train, best};
  CHECK(named_metrics(workflow, "train") == std::vector<std::string>{"data_wait_s", "f1"});
  CHECK(named_metrics(workflow, "best").empty());
}

TEST_CASE("metrics that do not fit are named below the table", "[results]") {
  Json metrics = Json::object();
  for (int i = 10; i < 20; ++i) metrics["metric-" + std::to_string(i)] = i;
  const std::vector<Result> results = {result_of("a-1", {{"lr", 1}}, metrics)};
  const std::string table = results_table(results, "metric-19", kPlain);
  for (const std::string& line : split(table, '\n')) CHECK(display_width(line) <= 80);
  CHECK(split(table, '\n').at(1).starts_with("lr  metric-19  metric-10"));
  CHECK_THAT(table, Catch::Contains("3 more with --csv or --json: metric-16, metric-17"));
}

TEST_CASE("CSV has every value with all its digits", "[results]") {
  std::vector<Result> results = sweep();
  results.resize(2);
  results[0].metrics["accuracy"] = 0.893112345;
  results[1].metrics.erase("loss");
  results[1].matrix["lr"] = "a \"b\", c";
  CHECK(results_csv(results) ==
        "run,step,job,state,params.epochs,matrix.lr,metrics.accuracy,metrics.loss\r\n"
        "sweep-1,train,\"train[{\"\"lr\"\":0.05}]\",succeeded,3,0.05,0.893112345,0.3\r\n"
        "sweep-1,train,\"train[{\"\"lr\"\":0.5}]\",succeeded,3,\"a \"\"b\"\", c\",0.1,\r\n");
}

TEST_CASE("no value of CSV is a formula or a control sequence, and numbers stay numbers",
          "[results]") {
  std::vector<Result> results = sweep();
  results.resize(1);
  const auto cell = [&](const Json& value) {
    results[0].metrics = Json::object();
    results[0].matrix = {{"x", value}};
    results[0].params = Json::object();
    const std::string line = split(results_csv(results), '\n').at(1);
    return line.substr(line.rfind(",succeeded,") + 11,
                       line.size() - line.rfind(",succeeded,") - 12);
  };
  CHECK(cell("=cmd|' /C calc'!A0") == "'=cmd|' /C calc'!A0");
  CHECK(cell("@SUM(A1)") == "'@SUM(A1)");
  CHECK(cell("+1+2") == "'+1+2");
  CHECK(cell("-2+3") == "'-2+3");
  CHECK(cell(-1.5) == "-1.5");
  CHECK(cell("-1.5") == "-1.5");
  CHECK(cell("-1e-7") == "-1e-7");
  CHECK(cell("a\x1b]0;b\r\nc") == "a\\u001b]0;b\\r\\nc");
  CHECK(cell("plain") == "plain");
}

TEST_CASE("results cover the requested step, or all steps with metrics", "[results]") {
  Plan plan;
  plan.workflow.params = {{"epochs", 3}};
  RunStatus status;
  status.run = "demo-7f3a";
  status.workflow = "demo";
  const auto add = [&](const std::string& name, const std::string& uses, const Json& metrics) {
    plan.workflow.steps.emplace_back();
    plan.workflow.steps.back().name = name;
    plan.workflow.steps.back().uses = uses;
    plan.steps.emplace_back();
    plan.steps.back().elements =
        std::make_shared<const std::vector<Json>>(std::vector<Json>{{{"lr", 0.1}}});
    plan.jobs.emplace_back();
    plan.jobs.back().name = JobName(name, "lr=0.1");
    plan.jobs.back().step = uint32_t(plan.jobs.size() - 1);
    status.jobs.emplace_back();
    status.jobs.back().job = plan.jobs.back().name;
    status.jobs.back().state = JobState::Succeeded;
    status.jobs.back().metrics = metrics;
  };
  add("data", "stage", {{"bytes", 7}});
  add("train", "train", {{"loss", 0.5}});
  add("pack", "", Json::object());
  add("odd", "", Json());

  const std::vector<Result> all = results_of(plan, status, "");
  REQUIRE(all.size() == 1);
  CHECK(to_json(all[0]) == Json::parse(R"({"run": "demo-7f3a", "workflow": "demo",
      "step": "train", "job": "train[lr=0.1]", "state": "succeeded", "params": {"epochs": 3},
      "matrix": {"lr": 0.1}, "metrics": {"loss": 0.5}})"));
  CHECK(jobs(results_of(plan, status, "data")) == std::vector<std::string>{"data[lr=0.1]"});
  CHECK(jobs(results_of(plan, status, "pack")) == std::vector<std::string>{"pack[lr=0.1]"});
  CHECK(results_of(plan, status, "odd").at(0).metrics == Json::object());

  status.jobs.pop_back();  // an incomplete record
  status.jobs.pop_back();
  CHECK(results_of(plan, status, "pack").empty());
  CHECK(results_of(plan, status, "").size() == 1);
  status.jobs.resize(9);
  CHECK(results_of(plan, status, "").size() == 1);
}

TEST_CASE("a prediction stands beside its measured value", "[results]") {
  Plan plan;
  plan.workflow.steps.emplace_back().name = "train";
  plan.jobs.emplace_back().name = "train";
  JobRow row;
  row.state = JobState::Succeeded;
  row.metrics = {{"images_per_s", 640}};
  row.started = Time(std::chrono::seconds(100));
  row.ended = Time(std::chrono::seconds(130));
  CHECK(metrics_of(plan, 0, row) == row.metrics);
  plan.options.predictions["train"] = {{"step_s", 0.25}, {"time_s", nullptr}, {"batch", 128}};
  CHECK(metrics_of(plan, 0, row) ==
        Json{{"images_per_s", 640}, {"predicted_step_s", 0.25}, {"step_s", 0.2}, {"time_s", 30.0}});
  const std::string table = results_table(
      std::vector{result_of("a-1", Json::object(), metrics_of(plan, 0, row))}, "", kPlain);
  CHECK(table.find("\ntrain: predicted 0.25 s a step; measured 0.2 s a step, 30 s in all\n") !=
        std::string::npos);
  row.metrics = Json();  // it has not ended
  CHECK(metrics_of(plan, 0, row).empty());
}

TEST_CASE("numbers have enough digits to differ, and whole numbers all of theirs", "[results]") {
  const std::vector<Result> results = {
      result_of("a-1", {{"lr", Json::array({1, 2})}},
                {{"a", 1000.4}, {"b", 999.96}, {"c", 7}, {"d", "NaN"}, {"e", 0.123456}})};
  CHECK(results_table(results, "", kPlain) ==
        "train\n"
        "lr        a     b  c    d       e\n"
        "[1,2]  1000  1000  7  NaN  0.1235\n");
  CHECK(results_table({{result_of("a-1", Json::object(), {{"a", 12345.5}, {"b", 1000.5}})}}, "",
                      kPlain) ==
        "train\n"
        "    a     b\n"
        "12346  1000\n");
}

TEST_CASE("the first metric is shown even if narrow, others if they fit", "[results]") {
  const std::vector<Result> results = {
      result_of("a-1", {{"lr", 1}}, {{"loss", 0.5}, {"more", 0.25}, {"yet", 1}})};
  const std::string all =
      "train\n"
      "lr  loss  more  yet\n"
      "1    0.5  0.25    1\n";
  CHECK(results_table(results, "", {.width = 19}) == all);
  CHECK(results_table(results, "", {.width = 18}) ==
        "train\n"
        "lr  loss  more\n"
        "1    0.5  0.25\n"
        "1 more with --csv or --json: yet\n");
  CHECK(results_table(results, "", {.width = 3}) ==
        "train\n"
        "lr  loss\n"
        "1    0.5\n"
        "2 more with --csv or --json: more, yet\n");
}

TEST_CASE("each step has its table, with a state if not all succeeded", "[results]") {
  std::vector<Result> results = {result_of("a-1", Json::object(), {{"loss", 1}}),
                                 result_of("a-1", Json::object(), {{"accuracy", 2}}),
                                 result_of("a-1", Json::object(), {{"loss", 3}})};
  results[1].step = "evaluate";
  results[2].state = JobState::Failed;
  CHECK(results_table(results, "", kPlain) ==
        "train\n"
        "STATE      loss\n"
        "succeeded     1\n"
        "failed        3\n"
        "\n"
        "evaluate\n"
        "accuracy\n"
        "       2\n");
}

TEST_CASE("the better direction of a metric follows from the goal, or else from its name",
          "[results]") {
  std::vector<Result> results = {result_of("a-1", Json::object(), {{"score", 1}, {"epoch_s", 1}}),
                                 result_of("a-2", Json::object(), {{"score", 2}, {"epoch_s", 2}})};
  sort_results(results, "score", Order::BestFirst);
  CHECK(results[0].run == "a-2");
  sort_results(results, "epoch_s", Order::BestFirst);
  CHECK(results[0].run == "a-1");
  results[0].goal = Goal{"score", false};
  sort_results(results, "score", Order::WorstFirst);
  CHECK(results[0].run == "a-2");
  CHECK(largest_is_best("images_per_s"));
  CHECK(!largest_is_best("validation_loss"));
}

TEST_CASE("the best is the best by the metric that sorts, and only among comparable results",
          "[results]") {
  std::vector<Result> results = {
      result_of("a-1", Json::object(), {{"accuracy", 0.5}, {"loss", 0.1}}),
      result_of("a-2", Json::object(), {{"accuracy", 0.9}, {"loss", 0.4}})};
  for (Result& result : results) result.goal = Goal{"accuracy", true};
  CHECK(best_of(results)->run == "a-2");
  sort_results(results, "loss", Order::WorstFirst);
  CHECK_THAT(results_table(results, "loss", kPlain),
             Catch::EndsWith("best: a-1 train, loss 0.1 (the smallest)\n"));
  results[0].goal = Goal{"accuracy", true};  // of another network
  CHECK(best_of(results) == nullptr);
}

TEST_CASE("a cached result is left out if its origin is listed", "[results]") {
  std::vector<Result> results = {result_of("a-1", Json::object(), {{"loss", 1}}),
                                 result_of("a-3", Json::object(), {{"loss", 1}}),
                                 result_of("a-2", {{"lr", 1}}, {{"loss", 2}}),
                                 result_of("a-3", {{"lr", 1}}, {{"loss", 2}})};
  for (const size_t i : {1, 2, 3}) results[i].state = JobState::Cached;
  results[0].directory = results[1].directory = "/runs/a-1/steps/train";
  results[2].directory = results[3].directory = "/runs/a-0/steps/train";  // not listed
  remove_repeated(results);
  REQUIRE(results.size() == 2);
  CHECK(results[0].run == "a-1");
  CHECK(results[1].run == "a-2");
  for (Result& result : results) result.directory = "";  // not known
  remove_repeated(results);
  CHECK(results.size() == 2);
}

TEST_CASE("costs are smallest first, and the bytes of an optimizer come last", "[results]") {
  for (const char* metric : {"cost", "latency", "regret", "wer", "val_wer", "crps", "bias"}) {
    CHECK(!largest_is_best(metric));
  }
  CHECK(largest_is_best("answered"));
  CHECK(in_metric_order({"optimizer_bytes_per_rank", "data_wait_s", "epochs"}) ==
        std::vector<std::string>{"epochs", "data_wait_s", "optimizer_bytes_per_rank"});
}

TEST_CASE("equal results stay in their order", "[results]") {
  for (const Order order : {Order::BestFirst, Order::WorstFirst}) {
    std::vector<Result> results;
    for (int i = 0; i < 40; ++i) {
      results.push_back(result_of("a-" + std::to_string(i), Json::object(), {{"loss", 1}}));
    }
    sort_results(results, "loss", order);
    for (int i = 0; i < 40; ++i) CHECK(results[size_t(i)].run == "a-" + std::to_string(i));
  }
  std::vector<Result> none = {result_of("a-1", Json::object(), Json::object())};
  CHECK_THROWS_WITH(sort_results(none, "loss", Order::BestFirst),
                    "no result has the metric 'loss'");
  std::vector<Result> one = {result_of("a-1", {{"lr", 1}}, {{"loss", 1}})};
  CHECK_THROWS_WITH(sort_results(one, "lr", Order::BestFirst),
                    "'lr' is an axis of the matrix, and no metric; metrics: loss");
}

TEST_CASE("metrics that are not numbers are not sorted", "[results]") {
  std::vector<Result> results = {result_of("a-1", Json::object(), {{"loss", "NaN"}}),
                                 result_of("a-2", Json::object(), {{"loss", "NaN"}}),
                                 result_of("a-3", Json::object(), {{"loss", 1}})};
  sort_results(results, "loss", Order::BestFirst);
  CHECK(results[0].run == "a-3");
  CHECK(results[1].run == "a-1");
}
