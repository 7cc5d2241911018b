#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

/// Numbers that record their computation, so that its gradients follow by the chain rule. Source:
/// Griewank and Walther, "Evaluating Derivatives", SIAM 2008, chapter 3 (the reverse mode).
namespace dlflow::runtime::reference {

/// A double. If it depends on a variable of a Record, it is a step of that record.
class Number {
 public:
  Number(double value = 0) : value_(value) {}

  /// The result of an operation on `a` and `b`, with its derivatives with respect to both.
  Number(double value, const Number& a, double by_a, const Number& b = 0, double by_b = 0);

  double value() const { return value_; }

 private:
  friend class Record;

  double value_;
  uint32_t step_ = 0;  // 0: a constant
};

/// The computation on this thread as long as it lives. There must be only one on a thread.
class Record {
 public:
  Record() { current_ = this; }
  ~Record() { current_ = nullptr; }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  /// Must be called before anything is computed.
  Number variable(double value) {
    Number number(value);
    number.step_ = add({});
    num_variables_ = number.step_;
    return number;
  }

  /// Returns the derivatives of sum(weights * results) with respect to each variable, in order.
  std::vector<double> gradients(std::span<const Number> results,
                                std::span<const double> weights) const {
    std::vector<double> slopes(steps_.size());
    for (size_t i = 0; i < results.size(); ++i) slopes[results[i].step_] += weights[i];
    for (size_t i = steps_.size(); i-- > num_variables_ + 1;) {
      slopes[steps_[i].a] += slopes[i] * steps_[i].by_a;
      slopes[steps_[i].b] += slopes[i] * steps_[i].by_b;
    }
    return {slopes.begin() + 1, slopes.begin() + 1 + num_variables_};
  }

 private:
  friend class Number;

  struct Step {
    uint32_t a = 0, b = 0;
    double by_a = 0, by_b = 0;
  };

  uint32_t add(const Step& step) {
    steps_.push_back(step);
    return uint32_t(steps_.size() - 1);
  }

  static inline thread_local Record* current_ = nullptr;
  std::vector<Step> steps_ = {{}};  // the first stands for all constants
  uint32_t num_variables_ = 0;
};

inline Number::Number(double value, const Number& a, double by_a, const Number& b, double by_b)
    : value_(value) {
  if (a.step_ == 0 && b.step_ == 0) return;
  step_ = Record::current_->add({a.step_, b.step_, by_a, by_b});
}

inline Number operator+(const Number& a, const Number& b) {
  return {a.value() + b.value(), a, 1, b, 1};
}
inline Number operator-(const Number& a, const Number& b) {
  return {a.value() - b.value(), a, 1, b, -1};
}
inline Number operator*(const Number& a, const Number& b) {
  return {a.value() * b.value(), a, b.value(), b, a.value()};
}
inline Number operator/(const Number& a, const Number& b) {
  const double quotient = a.value() / b.value();
  return {quotient, a, 1 / b.value(), b, -quotient / b.value()};
}
inline Number operator-(const Number& a) { return 0 - a; }
inline Number& operator+=(Number& a, const Number& b) { return a = a + b; }
inline Number& operator-=(Number& a, const Number& b) { return a = a - b; }
inline Number& operator/=(Number& a, const Number& b) { return a = a / b; }
inline std::partial_ordering operator<=>(const Number& a, const Number& b) {
  return a.value() <=> b.value();
}

using std::erfc, std::exp, std::log, std::sqrt, std::tanh;

inline Number exp(const Number& a) { return {std::exp(a.value()), a, std::exp(a.value())}; }
inline Number log(const Number& a) { return {std::log(a.value()), a, 1 / a.value()}; }
inline Number sqrt(const Number& a) {
  return {std::sqrt(a.value()), a, 0.5 / std::sqrt(a.value())};
}
inline Number tanh(const Number& a) {
  const double result = std::tanh(a.value());
  return {result, a, 1 - result * result};
}
inline Number erfc(const Number& a) {
  const double slope = -2 * std::numbers::inv_sqrtpi * std::exp(-a.value() * a.value());
  return {std::erfc(a.value()), a, slope};
}

inline double value_of(double number) { return number; }
inline double value_of(const Number& number) { return number.value(); }

}  // namespace dlflow::runtime::reference
