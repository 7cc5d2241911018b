#include "engine/store/database.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/error.h"

namespace dlflow {
namespace {

[[noreturn]] void throw_sqlite(sqlite3* database, int code) {
  const char* name = database == nullptr ? nullptr : sqlite3_db_filename(database, "main");
  const std::string file = name == nullptr ? "the database" : name;
  const std::string cause = database == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(Errc::Unavailable, "another dlflow process is writing " + file +
                                         " and has not finished; try again in a moment");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw Error(Errc::Corrupt, file + " is damaged (" + cause +
                                     "); move it away, then `dlflow doctor --rebuild` rebuilds it "
                                     "from the run directories");
    case SQLITE_FULL:
      throw Error(Errc::InvalidInput, "cannot write " + file +
                                          ": the disk is full; free some space, or set DLFLOW_HOME "
                                          "to a folder elsewhere");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      throw Error(Errc::InvalidInput,
                  "cannot write " + file + " (" + cause +
                      "); check its permissions, or set DLFLOW_HOME to a folder you may write");
    default:
      throw Error(Errc::Unavailable, "cannot use " + file + ": " + cause);
  }
}

void check(sqlite3* database, int code) {
  if (code != SQLITE_OK) throw_sqlite(database, code);
}

std::string_view journal_mode(const std::filesystem::path& file) {
  return is_on_network_file_system(file) ? "truncate" : "wal";
}

}  // namespace

Statement::Statement(sqlite3* database, std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  check(database, sqlite3_prepare_v3(database, sql.data(), int(sql.size()),
                                     SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
  statement_.reset(statement);
}

bool Statement::next() {
  const int code = sqlite3_step(statement_.get());
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    throw_sqlite(sqlite3_db_handle(statement_.get()), code);
  }
  return code == SQLITE_ROW;
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  return {bytes == nullptr ? "" : bytes, size_t(sqlite3_column_bytes(statement_.get(), column))};
}

void Statement::bind_one(int parameter, int64_t value) {
  check(sqlite3_db_handle(statement_.get()),
        sqlite3_bind_int64(statement_.get(), parameter, value));
}

void Statement::bind_one(int parameter, std::string_view value) {
  check(sqlite3_db_handle(statement_.get()),
        sqlite3_bind_text64(statement_.get(), parameter, value.data() ? value.data() : "",
                            value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::bind_one(int parameter, std::nullptr_t) {
  check(sqlite3_db_handle(statement_.get()), sqlite3_bind_null(statement_.get(), parameter));
}

Database::Database(const std::filesystem::path& file, std::chrono::milliseconds busy_timeout)
    : file_(file) {
  sqlite3* database = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_CREATE, nullptr);
  database_.reset(database);
  if (code != SQLITE_OK) {
    const std::string cause = sqlite3_errstr(code);
    throw Error(Errc::InvalidInput,
                "cannot open " + file.string() + " (" + cause +
                    "); check its permissions, or set DLFLOW_HOME to a folder you may write");
  }
  sqlite3_busy_timeout(database, int(busy_timeout.count()));
  script("PRAGMA foreign_keys = ON;");
  set_journal_mode(journal_mode(file), busy_timeout);
  script("PRAGMA synchronous = NORMAL;");
}

/// Changing the mode needs exclusive access to the file, and SQLite does not wait for that.
void Database::set_journal_mode(std::string_view mode, std::chrono::milliseconds patience) {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    try {
      Statement pragma(database_.get(), "PRAGMA journal_mode = " + std::string(mode));
      pragma.next();
      return;
    } catch (const Error& error) {
      if (!error.retryable() || std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(5ms);
  }
}

Statement& Database::statement(std::string_view sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    found = statements_.emplace(std::string(sql), Statement(database_.get(), sql)).first;
  }
  return found->second;
}

void Database::script(const std::string& sql) {
  check(database_.get(), sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr));
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const Error&) {
    // SQLite has rolled back by itself, for instance because the disk is full.
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

bool is_on_network_file_system(const std::filesystem::path& path) {
  constexpr std::array<uint32_t, 12> kNetwork = {
      0x6969,      // NFS
      0x0bd00bd0,  // Lustre
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB2
      0x517b,      // SMB
      0x65735546,  // FUSE: sshfs, gcsfuse, …
      0x00c36400,  // Ceph
      0x5346414f,  // AFS
      0x01021997,  // 9P
      0xaad7aaea,  // PanFS
  };
  std::filesystem::path existing = path;
  std::error_code ignored;
  while (!std::filesystem::exists(existing, ignored) && existing.has_parent_path() &&
         existing != existing.parent_path()) {
    existing = existing.parent_path();
  }
  struct statfs info {};
  if (::statfs(existing.empty() ? "." : existing.c_str(), &info) != 0) return false;
  return std::find(kNetwork.begin(), kNetwork.end(), uint32_t(info.f_type)) != kNetwork.end();
}

}  // namespace dlflow
