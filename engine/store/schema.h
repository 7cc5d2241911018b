#pragma once

#include <span>
#include <string>

#include "engine/store/database.h"

/// The tables of dlflow.db. Their columns are described in schema.cpp, and for readers of the file
/// in docs/contributor/store-format.md.
namespace dlflow {

/// SQL that takes the tables from one version to the next.
using Migration = std::string;

/// Migration i leads from version i to i + 1. A released migration is never changed.
std::span<const Migration> migrations();

/// Brings `database` to version `steps.size()`. Each step is applied completely or not at all: the
/// next process that opens the file repeats an interrupted one, and two processes that open it at
/// once take turns. Throws Error{InvalidInput} for a database from a newer dlflow.
void migrate(Database& database, std::span<const Migration> steps = migrations());

}  // namespace dlflow
