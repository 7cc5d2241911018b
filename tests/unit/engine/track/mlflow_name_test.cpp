#include "engine/track/mlflow.h"
#include "tests/support/answers.h"

using namespace dlflow;
using test::check_answers;

TEST_CASE("a name that MLflow allows stays unchanged", "[track]") {
  for (const char* name :
       {"loss", "train/loss", "top-1 acc.", "a:b", "x_2", "...", ".hidden/a.b"}) {
    CHECK(mlflow_name(name) == name);
  }
}

TEST_CASE("characters that MLflow refuses become underscores, also in a path with a shorter form",
          "[track]") {
  check_answers(mlflow_name, {{"GPU (%)", "GPU ___"},
                              {"loss@\n", "loss__"},
                              {"g\u00fcte \u2192 1", "g_te _ 1"},  // one for each character
                              {"\x80", "_"},
                              {"", "_"},
                              {"/loss", "_/loss"},
                              {"loss/", "loss/_"},
                              {"a//b", "a/_/b"},
                              {"./a", "_/a"},
                              {"a/../b", "a/__/b"}});
}

TEST_CASE("an overlong name for MLflow is cut", "[track]") {
  check_answers(mlflow_name, {{std::string(250, 'a'), std::string(250, 'a')},
                              {std::string(300, 'a'), std::string(250, 'a')},
                              {std::string(248, 'a') + "/.b", std::string(248, 'a') + "__"}});
}
