#include "runtime/cooperation/pairwise.h"

#include "runtime/comm/backoff.h"
#include "runtime/comm/messages.h"
#include "runtime/cooperation/own_steps.h"

namespace dlflow::runtime {
namespace {

/// Precedes the weights from a rank that asks.
enum class Question : uint32_t { Average, NoMore };

std::span<const std::byte> bytes_of(const Question& question) {
  return std::as_bytes(std::span(&question, 1));
}

Task ask_to_average(Link link, std::span<float> weights, int partner) {
  const Question question = Question::Average;
  const std::vector<float> sent(weights.begin(), weights.end());
  std::vector<float> moved(weights.size());
  Messages messages = link.messages();
  link.receive(messages, std::as_writable_bytes(std::span(moved)), partner);
  link.send(messages, bytes_of(question), partner);
  link.send(messages, std::as_bytes(std::span(sent)), partner);
  co_await messages;
  for (size_t i = 0; i < moved.size(); ++i) weights[i] -= moved[i];
}

Task say_no_more(Link link) {
  const Question question = Question::NoMore;
  Messages messages = link.messages();
  for (int partner = 1; partner < link.size(); partner += 2) {
    link.send(messages, bytes_of(question), partner);
  }
  co_await messages;
}

/// Answers `asker` until it sends NoMore.
Task answer(Link link, std::span<float> weights, int asker) {
  for (;;) {
    Question question{};
    co_await link.receive(std::as_writable_bytes(std::span(&question, 1)), asker);
    if (question == Question::NoMore) co_return;
    std::vector<float> values(weights.size());
    co_await link.receive(std::as_writable_bytes(std::span(values)), asker);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.5f * (values[i] - weights[i]);
      weights[i] += values[i];
    }
    co_await link.send(std::as_bytes(std::span(values)), asker);
  }
}

}  // namespace

Pairwise::Pairwise(const CooperationOptions& options, Communicator& comm, const RuleSet& rules,
                   Timeline& timeline)
    : every_(options.every),
      comm_(comm),
      link_(comm),
      agreement_(comm),
      timeline_(timeline),
      averaging_(comm, rules) {}

Role Pairwise::role() { return role_of_own_model(alone_.communicator(0), comm_); }

Meeting Pairwise::advance(const Learner& learner, const Stretch& stretch) {
  const std::span<float> weights = learner.own.state().front().first(learner.own.num_trained());
  OwnSteps steps(comm_, learner.stepper);
  Agreement::RankStatus status{.done = stretch.done};
  begin(stretch, weights);
  while (!over()) {
    if (agreement_.may_step(status.done)) {
      status.calls = steps.make().report.calls_for_meeting() || status.calls;
      ++status.done;
      if (asks() && status.done % every_ == 0) ask(weights);
    }
    const Timed timed(timeline_, Timeline::Row::Waiting, "exchange");
    for (Backoff backoff(comm_); !look(status) && !agreement_.may_step(status.done);) {
      if (!backoff.wait()) throw_no_answer(comm_.rank(), -1, comm_.timeout());
    }
  }
  const Timed timed(timeline_, Timeline::Row::Waiting, "average");
  return {status.done, averaging_.average(learner.own.state(), steps.report())};
}

void Pairwise::begin(const Stretch& stretch, std::span<float> weights) {
  agreement_.begin(stretch.limit);
  asks_no_more_ = false;
  if (asks()) return;
  for (int asker = 0; asker < comm_.size(); asker += 2) {
    open_.push_back(answer(link_, weights, asker));
  }
}

void Pairwise::ask(std::span<float> weights) {
  const size_t partners = size_t(comm_.size()) / 2;
  if (partners == 0 || !open_.empty()) return;
  const size_t partner = (size_t(comm_.rank()) / 2 + asked_++) % partners;
  open_.push_back(ask_to_average(link_, weights, int(2 * partner + 1)));
}

void Pairwise::ask_no_more() {
  if (!asks() || asks_no_more_ || !open_.empty()) return;
  open_.push_back(say_no_more(link_));
  asks_no_more_ = true;
}

bool Pairwise::look(Agreement::RankStatus status) {
  bool moved = false;
  std::erase_if(open_, [&](Task& task) {
    const Progress progress = task.poll();
    moved = moved || progress != Progress::None;
    return progress == Progress::Done;
  });
  if (status.done == agreement_.meeting()) ask_no_more();
  status.arrived = status.done == agreement_.meeting() && (!asks() || asks_no_more_);
  return agreement_.look(status) || moved;
}

}  // namespace dlflow::runtime
