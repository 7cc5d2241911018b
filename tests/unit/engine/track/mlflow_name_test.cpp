#include "engine/track/mlflow.h"
#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("a name that MLflow allows stays as it is", "[track]") {
  for (const char* name :
       {"loss", "train/loss", "top-1 acc.", "a:b", "x_2", "...", ".hidden/a.b"}) {
    CHECK(mlflow_name(name) == name);
  }
}

TEST_CASE("what MLflow does not allow in a name becomes an underscore", "[track]") {
  CHECK(mlflow_name("GPU (%)") == "GPU ___");
  CHECK(mlflow_name("loss@\n") == "loss__");
  CHECK(mlflow_name("g\u00fcte \u2192 1") == "g_te _ 1");  // one for each character
  CHECK(mlflow_name("\x80") == "_");
}

TEST_CASE("a name is no path that could be written shorter", "[track]") {
  CHECK(mlflow_name("") == "_");
  CHECK(mlflow_name("/loss") == "_/loss");
  CHECK(mlflow_name("loss/") == "loss/_");
  CHECK(mlflow_name("a//b") == "a/_/b");
  CHECK(mlflow_name("./a") == "_/a");
  CHECK(mlflow_name("a/../b") == "a/__/b");
}

TEST_CASE("a name that is too long for MLflow is cut", "[track]") {
  CHECK(mlflow_name(std::string(250, 'a')) == std::string(250, 'a'));
  CHECK(mlflow_name(std::string(300, 'a')) == std::string(250, 'a'));
  CHECK(mlflow_name(std::string(248, 'a') + "/.b") == std::string(248, 'a') + "__");
}
