#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/import/sources.h"

/// Names of classes and columns beside packed data, and notes about them, for `dlflow data pack`.
namespace dlflow {

/// Throws Error{InvalidInput} with `advice` if `file` of the other splits has other `names`: two
/// splits whose labels mean different classes, or whose columns differ, would give a bad accuracy
/// and no error. Throws for names that cannot be lines of a file, too.
void require_same_names(const std::filesystem::path& file, const std::vector<std::string>& names,
                        const std::string& what, const std::string& advice);

/// Gives `split` the classes in `file`, those of the other splits, if its own are among them: a
/// split may lack some.
void take_known_classes(const std::filesystem::path& file, runtime::ImportedSplit& split);

/// Nothing if there are no names.
void write_names(const std::filesystem::path& file, const std::vector<std::string>& names);

/// What makes training on the samples of `file` useless: one sample, or one class.
std::vector<std::string> notes_on_learning(const std::filesystem::path& file,
                                           const runtime::ImportedSplit& split);

/// On standard error, a warning each.
void print_notes(const std::vector<std::string>& notes);

}  // namespace dlflow
