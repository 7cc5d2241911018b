#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Metrics of a classification, from the classes and probabilities of all samples. Counts are
/// integers, so the results have the same bits for any distribution of the samples.
namespace dlflow::runtime {

/// The counts of one class.
struct ClassCounts {
  int64_t samples = 0;    ///< labelled as this class
  int64_t predicted = 0;  ///< predicted as this class
  int64_t correct = 0;    ///< both
};

/// Returns the counts of each class, from one label and one prediction per sample.
std::vector<ClassCounts> count_classes(std::span<const uint32_t> labels,
                                       std::span<const uint32_t> predicted, size_t classes);

/// The mean of 2 correct / (samples + predicted) over the classes that occur in either, as
/// scikit-learn's f1_score with average="macro".
double macro_f1(std::span<const ClassCounts> counts);

/// The mean of correct / (samples + predicted - correct) over the classes that occur in either:
/// intersection over union, as scikit-learn's jaccard_score with average="macro".
double mean_iou(std::span<const ClassCounts> counts);

/// The area under the ROC curve: the probability that a sample of a class has a higher score for it
/// than a sample of another class; ties count as half. With two classes, the area of the second;
/// with more, the mean over the classes that have both positive and negative samples, each against
/// the rest, as scikit-learn's roc_auc_score with multi_class="ovr". Nothing if there is no such
/// class, or if a score is NaN.
/// \param scores  one row of `classes` numbers for each label
/// Cost: for N samples, N log N comparisons per class.
std::optional<double> area_under_curve(std::span<const uint32_t> labels,
                                       std::span<const float> scores, size_t classes);

/// Returns, row by row, how many samples of label i were predicted as j.
std::vector<int64_t> confusion_matrix(std::span<const uint32_t> labels,
                                      std::span<const uint32_t> predicted, size_t classes);

/// Returns the names of classes in metrics of single classes: `names` reduced to letters, digits
/// and `_`, as expressions require ("T-shirt/top" becomes "T_shirt_top"). The class number replaces
/// an empty name, and is appended to a name that several classes share.
std::vector<std::string> class_keys(std::span<const std::string> names, size_t classes);

/// Returns the counts of each class, from a confusion_matrix().
std::vector<ClassCounts> count_classes(std::span<const int64_t> matrix, size_t classes);

}  // namespace dlflow::runtime
