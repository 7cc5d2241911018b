#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/handle.h"

/// SQLite in C++ style: values as arguments and results, errors as Error.
namespace dlflow {

/// A prepared statement.
class Statement {
 public:
  Statement(sqlite3* database, std::string_view sql);

  /// Binds all parameters, in order. The statement must not be between two rows.
  template <typename... Values>
  void bind(const Values&... values) {
    int parameter = 0;
    (bind_one(++parameter, values), ...);
  }

  /// Moves to the next row; false when there is none. Throws Error.
  bool next();

  /// Makes the statement ready to run again.
  void reset() noexcept { sqlite3_reset(statement_.get()); }

  /// Columns are counted from 0.
  bool is_null(int column) const;
  int64_t integer(int column) const;
  std::string text(int column) const;

 private:
  void bind_one(int parameter, int64_t value);
  void bind_one(int parameter, std::string_view value);
  void bind_one(int parameter, std::nullptr_t);
  void bind_one(int parameter, int value) { bind_one(parameter, int64_t(value)); }
  void bind_one(int parameter, uint32_t value) { bind_one(parameter, int64_t(value)); }
  void bind_one(int parameter, uint64_t value) { bind_one(parameter, int64_t(value)); }
  template <typename Value>
  void bind_one(int parameter, const std::optional<Value>& value) {
    value ? bind_one(parameter, *value) : bind_one(parameter, nullptr);
  }

  Handle<sqlite3_stmt, sqlite3_finalize> statement_;
};

inline void reset(Statement* statement) noexcept { statement->reset(); }

/// A running statement, which ends with the scope, so that a read lock never lives longer than its
/// reader.
using Rows = Handle<Statement, reset>;

/// An open database. On a local file system it uses a write-ahead log; on a network file system,
/// where locks and shared memory are unreliable, a rollback journal.
class Database {
 public:
  /// Opens `file`, creating it if needed. A call that meets another writer waits for
  /// `busy_timeout`. This and all other calls throw Error.
  explicit Database(const std::filesystem::path& file,
                    std::chrono::milliseconds busy_timeout = std::chrono::seconds(10));

  /// Starts `sql`, prepared at the first call. Read the rows with `while (rows->next())`.
  template <typename... Values>
  Rows query(std::string_view sql, const Values&... values) {
    Statement& prepared = statement(sql);
    prepared.bind(values...);
    return Rows(&prepared);
  }

  /// Runs a statement that returns no rows.
  template <typename... Values>
  void execute(std::string_view sql, const Values&... values) {
    const Rows rows = query(sql, values...);
    while (rows->next()) {
    }
  }

  /// Runs several statements, separated by semicolons.
  void script(const std::string& sql);

  const std::filesystem::path& file() const { return file_; }

 private:
  Statement& statement(std::string_view sql);
  void set_journal_mode(std::string_view mode, std::chrono::milliseconds patience);

  std::filesystem::path file_;
  Handle<sqlite3, sqlite3_close> database_;
  std::map<std::string, Statement, std::less<>> statements_;  // finalized before the database
};

/// The statements up to commit() take effect together or not at all. Takes the write lock at once,
/// so that values read inside stay true until the commit.
class Transaction {
 public:
  explicit Transaction(Database& database);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();  ///< rolls back unless committed

  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

/// Whether a path lies on NFS, Lustre, GPFS, BeeGFS, CIFS, FUSE or the like.
bool is_on_network_file_system(const std::filesystem::path& path);

}  // namespace dlflow
