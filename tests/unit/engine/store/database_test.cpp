#include "engine/store/database.h"

#include "base/error.h"
#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/limited.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace std::chrono_literals;
using test::TempDir;

namespace {

int64_t count(Database& database) {
  const Rows rows = database.query("SELECT count(*) FROM t");
  rows->next();
  return rows->integer(0);
}

}  // namespace

TEST_CASE("values are read as they were written", "[database]") {
  const TempDir folder;
  Database database(folder.path() / "x.db");
  database.script("CREATE TABLE t(a, b, c)");
  const std::string text = std::string("quote ' → \0 nul", 17);
  database.execute("INSERT INTO t VALUES(?, ?, ?)", INT64_MIN, text, std::optional<int>());
  const Rows rows = database.query("SELECT a, b, c FROM t");
  REQUIRE(rows->next());
  CHECK(rows->integer(0) == INT64_MIN);
  CHECK(rows->text(1) == text);
  CHECK(rows->is_null(2));
  CHECK(rows->text(2).empty());
  CHECK_FALSE(rows->next());
}

TEST_CASE("the log is on disk before the database is written, and that before the log is cut",
          "[database]") {
  const TempDir folder;
  const auto order = test::order_of_syncs([&] {
    Database database(folder.path() / "x.db");
    database.script("CREATE TABLE t(a); PRAGMA wal_checkpoint(TRUNCATE)");
  });
  if (!order) return test::skip("processes cannot be traced here");
  CHECK_THAT(*order, Catch::EndsWith("sync sync"));
}

TEST_CASE("an uncommitted transaction leaves no trace", "[database]") {
  const TempDir folder;
  Database database(folder.path() / "x.db");
  database.script("CREATE TABLE t(a)");
  {
    Transaction transaction(database);
    database.execute("INSERT INTO t VALUES(1)");
  }
  CHECK(count(database) == 0);
  Transaction transaction(database);
  database.execute("INSERT INTO t VALUES(1)");
  transaction.commit();
  CHECK(count(database) == 1);
}

TEST_CASE("a half-read query holds no lock", "[database]") {
  const TempDir folder;
  Database one(folder.path() / "x.db");
  one.script("CREATE TABLE t(a); INSERT INTO t VALUES(1), (2)");
  one.script("PRAGMA journal_mode = truncate");  // in this mode a reader blocks the writer below
  { CHECK(one.query("SELECT a FROM t")->next()); }
  Database two(folder.path() / "x.db", 0ms);
  two.script("INSERT INTO t VALUES(3)");
  CHECK(count(one) == 3);
}

TEST_CASE("a writer that meets another one waits, then reports it", "[database]") {
  const TempDir folder;
  Database one(folder.path() / "x.db");
  one.script("CREATE TABLE t(a)");
  Database two(folder.path() / "x.db", 20ms);
  const Transaction open(one);
  CHECK_THAT(test::error_of([&] { const Transaction second(two); }, Errc::Unavailable),
             Catch::Contains("another dlflow process is writing") &&
                 Catch::Contains((folder.path() / "x.db").string()));
  CHECK(count(two) == 0);  // reading goes on
}

TEST_CASE("a file that is not a database is reported as damaged and stays unchanged",
          "[database]") {
  const TempDir folder;
  const auto file = folder.write("x.db", std::string(5'000, 'x'));
  CHECK_THAT(test::error_of([&] { Database database(file); }, Errc::Corrupt),
             Catch::Contains("is damaged") && Catch::Contains("move it away"));
  CHECK(read_file(file) == std::string(5'000, 'x'));
}

TEST_CASE("a damaged page is an error, not a wrong answer", "[database]") {
  const TempDir folder;
  const auto file = folder.path() / "x.db";
  {
    Database database(file);
    database.script("CREATE TABLE t(a); INSERT INTO t VALUES(1)");
  }
  std::string bytes = read_file(file);
  REQUIRE(bytes.size() >= 2 * 4096);
  bytes.replace(4096, 100, 100, '\xee');  // the header of the table's page
  write_file_atomic(file, bytes);
  Database database(file);
  CHECK_THROWS_WITH(count(database), Catch::Contains("is damaged"));
}

TEST_CASE("a full disk is reported, and committed data is still there", "[database]") {
  const TempDir folder;
  const auto file = folder.path() / "x.db";
  Database database(file);
  database.script("CREATE TABLE t(a); INSERT INTO t VALUES(1)");
  {
    const test::Limited<RLIMIT_FSIZE> full(64 << 10);
    Transaction transaction(database);
    CHECK_THROWS_AS(
        [&] {
          database.execute("INSERT INTO t VALUES(?)", std::string(4 << 20, 'x'));
          transaction.commit();
        }(),
        Error);
  }
  CHECK(count(database) == 1);
  CHECK(count(*std::make_unique<Database>(file)) == 1);
}

TEST_CASE("a folder that cannot be written is named", "[database]") {
  const TempDir folder;
  CHECK_THROWS_WITH(Database(folder.path() / "none" / "x.db"),
                    Catch::Contains("none/x.db") && Catch::Contains("DLFLOW_HOME"));
}

TEST_CASE("a local folder is not on a network", "[database]") {
  CHECK_FALSE(is_on_network_file_system(TempDir().path()));
  CHECK_FALSE(is_on_network_file_system("/proc/self/not/there"));
}
