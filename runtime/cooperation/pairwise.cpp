#include <span>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/communicator.h"
#include "runtime/cooperation/agreement.h"
#include "runtime/cooperation/ways.h"

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

/// Every rank trains its own model on its share of the samples. After each `every` steps an even
/// rank averages its weights with those of one odd rank, each odd rank in turn, and neither waits:
/// the even rank sends its weights s and goes on. Between two of its steps the odd one moves its
/// own weights x by d = (s - x) / 2 and sends d back; the even one moves by -d, from its weights at
/// that time. So the sum over the ranks is preserved, however late an answer is, and ranks that ask
/// cannot wait for each other in a cycle. Decentralised and asynchronous: ranks wait for a slow
/// rank only at meetings.
///
/// Only trained weights are exchanged. At meetings they, running statistics and the optimizer's
/// state are replaced by their mean; all ranks agree on the step (agreement.h).
///
/// Cost of an exchange of n bytes of weights: one message of n bytes each way; messages move
/// between steps. Memory of an even rank: 2 n; of an odd one: n for each concurrent asker.
/// Source: AD-PSGD, Lian et al., arXiv 1710.06952; here an answer may be late.
class Pairwise final : public OwnModels {
 public:
  explicit Pairwise(const WaySetup& setup)
      : OwnModels(setup), link_(setup.comm), agreement_(setup.comm) {}

  Meeting advance(const Learner& learner, const Stretch& stretch) override {
    const std::span<float> weights = learner.own.state().front().first(learner.own.num_trained());
    OwnSteps steps(comm_, learner.stepper);
    Agreement::RankStatus status{.done = stretch.done};
    begin(stretch, weights);
    while (!over()) {
      if (agreement_.may_step(status.done)) {
        status.calls = steps.make().report.calls_for_meeting() || status.calls;
        ++status.done;
        if (asks() && status.done % options_.every == 0) ask(weights);
      }
      const Timed timed(timeline_, Timeline::Row::Waiting, "exchange");
      for (Backoff backoff(comm_); !look(status) && !agreement_.may_step(status.done);) {
        if (!backoff.wait()) throw_no_answer(comm_.rank(), -1, comm_.timeout());
      }
    }
    return {status.done, average(learner.own.state(), steps.report())};
  }

 private:
  bool asks() const { return comm_.rank() % 2 == 0; }

  void begin(const Stretch& stretch, std::span<float> weights) {
    agreement_.begin(stretch.limit);
    asks_no_more_ = false;
    if (asks()) return;
    for (int asker = 0; asker < comm_.size(); asker += 2) {
      open_.push_back(answer(link_, weights, asker));
    }
  }

  /// Asks the next odd rank, unless the last answer is still pending.
  void ask(std::span<float> weights) {
    const size_t partners = size_t(comm_.size()) / 2;
    if (partners == 0 || !open_.empty()) return;
    const size_t partner = (size_t(comm_.rank()) / 2 + asked_++) % partners;
    open_.push_back(ask_to_average(link_, weights, int(2 * partner + 1)));
  }

  void ask_no_more() {
    if (!asks() || asks_no_more_ || !open_.empty()) return;
    open_.push_back(say_no_more(link_));
    asks_no_more_ = true;
  }

  /// Moves messages and never waits. Returns whether something moved.
  bool look(Agreement::RankStatus status) {
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

  bool over() const { return agreement_.over() && open_.empty(); }

  Link link_;
  Agreement agreement_;
  std::vector<Task> open_;  // even rank: its request; odd rank: its answers to each even rank
  uint64_t asked_ = 0;      // number of requests
  bool asks_no_more_ = false;
};

}  // namespace

std::unique_ptr<Cooperation> make_pairwise(const WaySetup& setup) {
  return std::make_unique<Pairwise>(setup);
}

}  // namespace dlflow::runtime
