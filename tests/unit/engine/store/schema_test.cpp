#include "engine/store/schema.h"

#include <unistd.h>

#include <set>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using test::TempDir;

namespace {

int64_t version(Database& database) {
  const Rows rows = database.query("PRAGMA user_version");
  rows->next();
  return rows->integer(0);
}

std::set<std::string> tables(Database& database) {
  std::set<std::string> names;
  const Rows rows = database.query("SELECT name FROM sqlite_master WHERE type = 'table'");
  while (rows->next()) names.insert(rows->text(0));
  return names;
}

const std::vector<Migration> kTwoSteps = {"CREATE TABLE one(a);", "CREATE TABLE two(a);"};

}  // namespace

TEST_CASE("a new database has all tables", "[schema]") {
  const TempDir folder;
  Database database(folder.path() / "x.db");
  migrate(database);
  CHECK(version(database) == int64_t(migrations().size()));
  CHECK(tables(database) == std::set<std::string>{"runs", "counts", "bases", "jobs", "events",
                                                  "files", "node_failures", "forgiven_nodes",
                                                  "overtaken"});
  migrate(database);
}

TEST_CASE("an older database is upgraded and keeps its content", "[schema]") {
  const TempDir folder;
  Database database(folder.path() / "x.db");
  migrate(database, std::span(kTwoSteps).first(1));
  database.script("INSERT INTO one VALUES(7)");
  migrate(database, kTwoSteps);
  CHECK(version(database) == 2);
  const Rows rows = database.query("SELECT a FROM one");
  REQUIRE(rows->next());
  CHECK(rows->integer(0) == 7);
}

TEST_CASE("a migration that fails half way changes nothing and can be repeated", "[schema]") {
  const TempDir folder;
  Database database(folder.path() / "x.db");
  const std::vector<Migration> broken = {kTwoSteps[0], "CREATE TABLE two(a); CREATE TABLE two(a);"};
  CHECK_THROWS_AS(migrate(database, broken), Error);
  CHECK(version(database) == 0);
  CHECK(tables(database).empty());
  migrate(database, kTwoSteps);
  CHECK(tables(database) == std::set<std::string>{"one", "two"});
}

TEST_CASE("a process killed in the middle of a migration leaves the old version", "[schema]") {
  const TempDir folder;
  const auto file = folder.path() / "x.db";
  test::in_child([&]() -> int {
    Database database(file);
    Transaction transaction(database);
    database.script(kTwoSteps[0]);
    database.script("PRAGMA user_version = 1");
    ::_exit(0);  // before the commit, and without destructors
  });
  Database database(file);
  CHECK(version(database) == 0);
  migrate(database, kTwoSteps);
  CHECK(version(database) == 2);
}

TEST_CASE("a database from a newer dlflow is refused", "[schema]") {
  const TempDir folder;
  Database database(folder.path() / "x.db");
  migrate(database, kTwoSteps);
  CHECK_THROWS_WITH(migrate(database, std::span(kTwoSteps).first(1)),
                    Catch::Contains("written by a newer dlflow (version 2; this one supports 1)"));
  CHECK(version(database) == 2);
}

TEST_CASE("processes that open a new database at once all succeed", "[schema]") {
  const TempDir folder;
  const auto file = folder.path() / "x.db";
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(test::begin_child([&] {
      Database database(file);
      migrate(database);
      return 0;
    }));
  }
  for (const pid_t child : children) CHECK(wait_for(child).code == 0);
}
