#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Measures of a classification, from the classes and probabilities of all samples. Counts are
/// whole numbers, so that the results have the same bits however samples were shared out.
namespace dlflow::runtime {

/// The samples of one class.
struct ClassCounts {
  int64_t samples = 0;    ///< that are of it
  int64_t predicted = 0;  ///< that were taken for it
  int64_t correct = 0;    ///< both
};

/// Of each class. `labels` and `predicted` belong together and are below `classes`.
std::vector<ClassCounts> count_classes(std::span<const uint32_t> labels,
                                       std::span<const uint32_t> predicted, size_t classes);

/// The mean of 2 correct / (samples + predicted) over the classes that occur in either, as
/// scikit-learn's f1_score with average="macro".
double macro_f1(std::span<const ClassCounts> counts);

/// The mean of correct / (samples + predicted - correct) over the classes that occur in either:
/// intersection over union, as scikit-learn's jaccard_score with average="macro".
double mean_iou(std::span<const ClassCounts> counts);

/// The area under the ROC curve: the probability that a sample of a class has a higher score for it
/// than one of another class; equal scores count as half. Of two classes for the second, of more
/// the mean over the classes that some samples are of and some not, each against the rest, as
/// scikit-learn's roc_auc_score with multi_class="ovr". Nothing if there is no such class, or if a
/// score is NaN.
/// \param scores  one row of `classes` numbers for each label
/// Cost: for N samples, N log N comparisons per class.
std::optional<double> area_under_curve(std::span<const uint32_t> labels,
                                       std::span<const float> scores, size_t classes);

/// Row by row, of what is labelled i the number taken for j.
std::vector<int64_t> confusion_matrix(std::span<const uint32_t> labels,
                                      std::span<const uint32_t> predicted, size_t classes);

/// What measures of single classes are called by: `names` in letters, digits and `_`, which
/// expressions take, "T-shirt/top" as "T_shirt_top"; the number of a class that has no such name,
/// and behind one that another class has, too.
std::vector<std::string> class_keys(std::span<const std::string> names, size_t classes);

/// Of each class, from such a matrix.
std::vector<ClassCounts> count_classes(std::span<const int64_t> matrix, size_t classes);

}  // namespace dlflow::runtime
