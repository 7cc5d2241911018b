#include "runtime/cooperation/agreement.h"

#include <algorithm>

#include "runtime/collectives/message_allreduce.h"

namespace dlflow::runtime {

void Agreement::begin(uint64_t limit) {
  meeting_ = limit;
  asked_ = called_ = over_ = false;
}

bool Agreement::look(const RankStatus& status) {
  if (over_) return false;
  if (!sum_) {
    values_.assign(size_t(link_.size()) + 2, 0);
    values_[size_t(link_.rank())] = int64_t(status.done);
    values_[size_t(link_.size())] = status.calls;
    values_.back() = status.arrived;
    sum_.emplace(message_allreduce(Algorithm::RecursiveDoubling, link_, std::span(values_)));
  }
  const Progress progress = sum_->poll();
  if (progress == Progress::Done) conclude();
  return progress != Progress::None;
}

void Agreement::conclude() {
  sum_.reset();
  const auto calls = values_.end() - 2;
  if (values_.back() == link_.size()) {
    over_ = true;
  } else if (asked_) {
    meeting_ = uint64_t(*std::max_element(values_.begin(), calls));
    asked_ = false;
    called_ = true;
  } else if (*calls > 0 && !called_) {
    asked_ = true;
  }
}

}  // namespace dlflow::runtime
