// The C interface as other programs use it. Ranks are threads here, unknown to the interface.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/c_api/dlflow_runtime.h"
#include "tests/support/catch.h"

extern "C" int abi_in_c(void);

namespace {

constexpr int64_t kTimeout = 20'000;

/// Throws the reason if an operation failed.
void require(dlflow_status status) {
  if (status != DLFLOW_OK) throw std::runtime_error(dlflow_error());
}

/// Waits for the operation whose start returned `status`.
void finish(dlflow_status status, dlflow_work*& work) {
  require(status);
  const dlflow_status result = dlflow_work_wait(work, kTimeout);
  dlflow_work_free(work);
  if (result == DLFLOW_PENDING) throw std::runtime_error("hangs");
  require(result);
}

struct Rank {
  dlflow_group* group;
  int rank, size;
  dlflow_work* work = nullptr;

  /// Starts `call` with these arguments between the group and the work.
  void start(auto* call, auto... arguments) { require(call(group, arguments..., &work)); }

  /// The same, and waits.
  void run(auto* call, auto... arguments) { finish(call(group, arguments..., &work), work); }
};

/// Returns each rank's error, or ""; memories[r] is the name of rank r's memory.
std::vector<std::string> on_ranks(const std::vector<const char*>& memories,
                                  const std::function<void(Rank&)>& work,
                                  int64_t timeout = kTimeout, int64_t linger = kTimeout) {
  const int size = int(memories.size());
  std::vector<dlflow_endpoint*> endpoints(memories.size());
  std::vector<const char*> addresses;
  std::vector<std::string> errors(memories.size());
  for (size_t i = 0; i < memories.size(); ++i) {
    require(dlflow_endpoint_open(memories[i], &endpoints[i]));
    addresses.push_back(dlflow_endpoint_address(endpoints[i]));
  }
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        Rank self{nullptr, rank, size};
        try {
          const dlflow_group_options options{timeout, 60'000, nullptr};
          require(dlflow_group_create(endpoints[size_t(rank)], rank, size, addresses.data(),
                                      &options, &self.group));
          work(self);
        } catch (const std::exception& error) {
          errors[size_t(rank)] = error.what();
        }
        dlflow_group_free(self.group, linger);
      });
    }
  }
  for (dlflow_endpoint* endpoint : endpoints) dlflow_endpoint_free(endpoint);
  return errors;
}

const std::vector<const char*> kOne = {"a"};
const std::vector<const char*> kNode = {"a", "a", "a"};
const std::vector<const char*> kNodes = {"a", "b", "a", "b"};

std::vector<std::string> none(size_t num_ranks) { return std::vector<std::string>(num_ranks); }

void same(const auto& got, const auto& expected, const char* what) {
  if (got != expected) throw std::runtime_error(std::string(what) + ": other values");
}

}  // namespace

TEST_CASE("the header compiles as C, and has the library's version") { CHECK(abi_in_c()); }

TEST_CASE("every collective gives every rank the promised result", "[c_api]") {
  const auto memories = GENERATE(kOne, kNode, kNodes);
  const size_t count = GENERATE(0, 1, 1001, 2'000'003);  // the last in several pieces
  CHECK(on_ranks(memories, [&](Rank& self) {
          const int P = self.size, r = self.rank;
          const size_t ranks = size_t(P);
          std::vector<float> values(count, float(r + 1));
          self.run(dlflow_all_reduce, values.data(), count, DLFLOW_F32, DLFLOW_SUM);
          same(values, std::vector(count, float(P * (P + 1) / 2)), "sum");
          values.assign(count, float(r + 1));
          self.run(dlflow_all_reduce, values.data(), count, DLFLOW_F32, DLFLOW_AVG);
          same(values, std::vector(count, float(P + 1) / 2), "mean");
          std::vector<double> doubles(count, r + 1);
          self.run(dlflow_all_reduce, doubles.data(), count, DLFLOW_F64, DLFLOW_MAX);
          same(doubles, std::vector(count, double(P)), "maximum");
          std::vector<int64_t> longs(count, r + 1);
          self.run(dlflow_reduce, longs.data(), count, DLFLOW_I64, DLFLOW_SUM, P - 1);
          same(longs, std::vector(count, int64_t(r == P - 1 ? P * (P + 1) / 2 : r + 1)), "reduce");

          std::vector<size_t> counts(ranks, count);  // rank 0 has one more
          ++counts[0];
          std::vector<int32_t> blocks(count * ranks + 1, r + 1);
          std::vector<int32_t> block(counts[size_t(r)]);
          self.run(dlflow_reduce_scatter, blocks.data(), block.data(), counts.data(), DLFLOW_I32,
                   DLFLOW_SUM);
          same(block, std::vector(block.size(), P * (P + 1) / 2), "reduce-scatter");

          std::vector<size_t> sizes(ranks);
          for (size_t i = 0; i < ranks; ++i) sizes[i] = counts[i] * sizeof(int32_t);
          block.assign(block.size(), r);
          self.run(dlflow_all_gather, block.data(), blocks.data(), sizes.data());
          std::vector<int32_t> expected;
          for (int rank = 0; rank < P; ++rank) {
            expected.insert(expected.end(), counts[size_t(rank)], rank);
          }
          same(blocks, expected, "all-gather");

          values.assign(count, float(r));
          self.run(dlflow_broadcast, values.data(), count * 4, P - 1);
          same(values, std::vector(count, float(P - 1)), "broadcast");

          const std::vector<size_t> equal(ranks, count * 4);
          std::vector<int32_t> sent, received(count * ranks), all;
          for (int rank = 0; rank < P; ++rank) sent.insert(sent.end(), count, 100 * r + rank);
          for (int rank = 0; rank < P; ++rank) all.insert(all.end(), count, 100 * rank + r);
          self.run(dlflow_all_to_all, sent.data(), equal.data(), received.data(), equal.data());
          same(received, all, "all-to-all");

          std::vector<int32_t> own(count, r + 7), gathered(r == 0 ? count * ranks : 0);
          self.run(dlflow_gather, own.data(), count * 4, gathered.data(), 0);
          all.clear();
          for (int rank = 0; rank < P && r == 0; ++rank) all.insert(all.end(), count, rank + 7);
          same(gathered, all, "gather");
          for (int32_t& value : gathered) value += 1;
          self.run(dlflow_scatter, gathered.data(), count * 4, own.data(), 0);
          same(own, std::vector(count, r + 8), "scatter");
          self.run(dlflow_barrier);
          self.run(dlflow_monitored_barrier, kTimeout);
        }) == none(memories.size()));
}

TEST_CASE("compressed sums and unsent residuals add up to all gradients", "[c_api]") {
  const auto method = dlflow_method(GENERATE(range(0, 8)));
  const bool is_dgc = method == DLFLOW_DGC;
  CAPTURE(int(method));
  constexpr size_t kRows = 24, kColumns = 40, kCount = kRows * kColumns + 7;
  std::vector<std::vector<double>> sums(4), unsent(4);
  const auto errors = on_ranks(kNodes, [&](Rank& self) {
    const dlflow_compression compression{method, 0, 0.05, 0, 2, 0, 0, 17};
    const dlflow_matrix matrix{3, kRows, kColumns};
    dlflow_compressor* compressor = nullptr;
    require(dlflow_compressor_create(&compression, &matrix, 1, kCount, &compressor));
    std::vector<double>& sum = sums[size_t(self.rank)];
    sum.assign(kCount, 0);
    for (uint64_t step = 0; step < 5; ++step) {
      std::vector<float> data(kCount);
      for (size_t i = 0; i < kCount; ++i) {
        data[i] = float(int(i * 31 + step * 7 + size_t(self.rank) * 13) % 101 - 50) / 8;
      }
      self.run(dlflow_compressed_all_reduce, compressor, data.data(), step, 0);
      for (size_t i = 0; i < kCount; ++i) sum[i] += double(data[i]);
    }
    size_t count = 0;
    const float* residual = dlflow_compressor_state(compressor, DLFLOW_RESIDUAL, &count);
    unsent[size_t(self.rank)].assign(residual, residual + count);
    dlflow_compressor_state(compressor, DLFLOW_VELOCITY, &count);
    same(count, is_dgc ? kCount : 0, "velocities");
    dlflow_compressor_state(compressor, DLFLOW_RIGHT_FACTORS, &count);
    same(count, method == DLFLOW_POWER_SGD ? 2 * kColumns : 0, "right factors");
    dlflow_compressor_free(compressor);
  });
  CHECK(errors == none(4));
  for (size_t rank = 1; rank < 4; ++rank) CHECK(sums[rank] == sums[0]);
  for (size_t i = 0; i < kCount; ++i) {
    double expected = 0, got = sums[0][i];
    for (size_t rank = 0; rank < 4; ++rank) {
      got += unsent[rank][i];
      for (size_t step = 0; step < 5; ++step) {
        expected += double(int(i * 31 + step * 7 + rank * 13) % 101 - 50) / 8;
      }
    }
    REQUIRE(std::abs(got - expected) < 0.02);
  }
}

TEST_CASE("a compressor with invalid settings is refused", "[c_api]") {
  dlflow_compression compression{DLFLOW_TOP_K, 0, 0.05, 0, 2, 0, 0, 17};
  dlflow_matrix matrix{0, 4, 5};
  dlflow_compressor* compressor = nullptr;
  const auto refused = [&](const std::string& why) {
    CHECK(dlflow_compressor_create(&compression, &matrix, 1, 20, &compressor) == DLFLOW_INVALID);
    CHECK(std::string(dlflow_error()) == why);
  };
  compression.density = 0;
  refused("density is in (0, 1]");
  compression.density = 0.05;
  compression.method = DLFLOW_INT8;
  compression.global_top_k = 1;
  refused("gtopk is for methods that send the largest numbers: topk, mstopk, dgc");
  compression.global_top_k = 0;
  matrix.columns = 6;
  refused("the matrix at element 0 is empty, too large, or overlaps the one before");
  matrix.rows = SIZE_MAX;
  refused("the matrix at element 0 is empty, too large, or overlaps the one before");
}

namespace {

/// Element `i` of a leaf; sums in another order have other bits.
float of_leaf(size_t leaf, size_t i) {
  return float(double((leaf * 7919 + i * 104729) % 100'003 + 1) / 3e3);
}

/// The sum over leaves [first, first + count) of a tree with 2^k >= count leaves: each product is
/// one number, and a node without a sibling moves up.
float tree_sum(const std::vector<float>& leaves, size_t first, size_t size) {
  if (size == 1) return leaves[first];
  const float left = tree_sum(leaves, first, size / 2);
  if (first + size / 2 >= leaves.size()) return left;
  return left + tree_sum(leaves, first + size / 2, size / 2);
}

}  // namespace

TEST_CASE("a sum over leaves has the same bits however ranks share the leaves", "[c_api]") {
  const auto memories = GENERATE(kOne, kNode, kNodes);
  const size_t num_leaves = GENERATE(1, 2, 3, 5, 8, 13);
  const size_t count = GENERATE(1, 5000);
  constexpr float kScale = 0.3f;
  constexpr size_t kEmpty = 2;  // a leaf without samples
  CAPTURE(memories.size(), num_leaves, count);
  CHECK(on_ranks(memories, [&](Rank& self) {
          dlflow_leaf_sum* sum = nullptr;
          self.run(dlflow_leaf_sum_create, num_leaves, count, &sum);
          const dlflow_leaves own = dlflow_leaf_sum_leaves(sum);
          for (size_t step = 0; step < 2; ++step) {
            for (size_t leaf = own.first; leaf < own.first + own.count; ++leaf) {
              std::vector<float> values(count);
              for (size_t i = 0; i < count; ++i) values[i] = of_leaf(leaf, i + step);
              const size_t first = count / 3;
              const bool is_empty = leaf == kEmpty;
              const dlflow_piece pieces[] = {
                  {first, count - first, is_empty ? nullptr : values.data() + first},
                  {0, first, is_empty ? nullptr : values.data()}};
              require(dlflow_leaf_sum_add(sum, leaf, kScale, pieces, 2));
            }
            dlflow_work* second = nullptr;
            require(dlflow_leaf_sum_start(sum, count / 2, count - count / 2, &second));
            finish(dlflow_leaf_sum_start(sum, 0, count / 2, &self.work), self.work);
            finish(DLFLOW_OK, second);
            std::vector<float> expected(count), leaves(num_leaves);
            size_t size = 1;
            while (size < num_leaves) size *= 2;
            for (size_t i = 0; i < count; ++i) {
              for (size_t leaf = 0; leaf < num_leaves; ++leaf) {
                leaves[leaf] = leaf == kEmpty ? 0 : kScale * of_leaf(leaf, i + step);
              }
              expected[i] = tree_sum(leaves, 0, size);
            }
            const float* const result = dlflow_leaf_sum_result(sum);
            same(std::vector(result, result + count), expected, "sum");
          }
        }) == none(memories.size()));
}

TEST_CASE("leaves of other ranks and pieces outside the vector are refused", "[c_api]") {
  CHECK(on_ranks(kNode, [](Rank& self) {
          dlflow_leaf_sum* sum = nullptr;
          self.run(dlflow_leaf_sum_create, 5, 10, &sum);
          const float values[10] = {};
          dlflow_piece piece = {0, 10, values};
          same(dlflow_leaf_sum_add(sum, self.rank == 0 ? 1 : 0, 1, &piece, 1), DLFLOW_INVALID,
               "other leaf");
          if (self.rank == 0) {
            same(std::string(dlflow_error()),
                 std::string("leaf 1 does not belong to this rank, which has 1 leaves from leaf 0"),
                 "reason");
          }
          piece.first = 1;
          const size_t own = dlflow_leaf_sum_leaves(sum).first;
          same(dlflow_leaf_sum_add(sum, own, 1, &piece, 1), DLFLOW_INVALID, "piece");
          same(dlflow_leaf_sum_start(sum, 11, 0, &self.work), DLFLOW_INVALID, "range");
        }) == none(3));
}

TEST_CASE("a message between two ranks overtakes the collective that waits for its receiver",
          "[c_api]") {
  CHECK(on_ranks(kNodes, [](Rank& self) {
          int value = self.rank;
          const auto sum = [&](dlflow_work** work) {
            return dlflow_all_reduce(self.group, &value, 1, DLFLOW_I32, DLFLOW_SUM, work);
          };
          int message = 42, received = 0;
          if (self.rank == 0) {
            dlflow_work* sent = nullptr;
            require(sum(&self.work));
            finish(dlflow_send(self.group, &message, sizeof message, 1, 5, &sent), sent);
          } else {
            if (self.rank == 1) {
              self.run(dlflow_receive, &received, sizeof received, 0, 5);
              same(received, 42, "message");
            }
            require(sum(&self.work));
          }
          finish(DLFLOW_OK, self.work);
          same(value, 6, "sum");
        }) == none(4));
}

TEST_CASE("ranks can exchange messages while one of them waits in their first sum", "[c_api]") {
  CHECK(on_ranks({"a", "a"}, [](Rank& self) {
          float value = 1;
          int message = 42, received = 0;
          const int other = 1 - self.rank;
          const auto sum = [&] {
            self.start(dlflow_all_reduce, &value, 1, DLFLOW_F32, DLFLOW_SUM);
          };
          const auto receive = [&](dlflow_work* work = nullptr) {
            finish(dlflow_receive(self.group, &received, sizeof received, other, 0, &work), work);
          };
          const auto send = [&](dlflow_work* work = nullptr) {
            finish(dlflow_send(self.group, &message, sizeof message, other, 0, &work), work);
          };
          if (self.rank == 0) {
            sum();
            receive();
            send();
          } else {
            send();
            receive();
            sum();
          }
          finish(DLFLOW_OK, self.work);
          same(received, 42, "message");
          same(value, 2.0f, "sum");
        }) == none(2));
}

TEST_CASE("a wait with a limit for a first sum ends although a rank is missing", "[c_api]") {
  std::atomic<bool> has_given_up = false;
  CHECK(on_ranks({"a", "a"}, [&](Rank& self) {
          float value = 1;
          if (self.rank == 1) has_given_up.wait(false);
          self.start(dlflow_all_reduce, &value, 1, DLFLOW_F32, DLFLOW_SUM);
          if (self.rank == 0) {
            const dlflow_status status = dlflow_work_wait(self.work, 100);
            has_given_up = true;
            has_given_up.notify_all();
            same(status, DLFLOW_PENDING, "status");
          }
          finish(DLFLOW_OK, self.work);
          same(value, 2.0f, "sum");
        }) == none(2));
}

TEST_CASE("a rank may go on while its sum waits for another rank", "[c_api]") {
  constexpr int kNoFreeCore = 1 << 20;
  std::atomic<bool> has_gone_on = false;
  CHECK(on_ranks({"a", "a"}, [&](Rank& self) {
          std::vector<float> values(1 << 20, 1);
          if (self.rank == 1) has_gone_on.wait(false);
          self.start(dlflow_all_reduce, values.data(), values.size(), DLFLOW_F32, DLFLOW_SUM);
          if (self.rank == 0) {
            const dlflow_status status = dlflow_work_advance(self.work, kNoFreeCore);
            has_gone_on = true;
            has_gone_on.notify_all();
            same(status, DLFLOW_PENDING, "status");
          }
          finish(DLFLOW_OK, self.work);
          same(values, std::vector<float>(values.size(), 2), "sum");
        }) == none(2));
}

TEST_CASE("ranks without a free core finish their sums before they go on", "[c_api]") {
  const auto [memories, threads] = GENERATE(table<std::vector<const char*>, int>(
      {{kOne, 1 << 10}, {kNode, 1 << 10}, {kNode, 1}, {kNodes, 1 << 10}}));
  const int num_threads = threads;
  CHECK(on_ranks(memories, [&](Rank& self) {
          const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          std::vector<float> values(1 << 18, 1);
          self.start(dlflow_all_reduce, values.data(), values.size(), DLFLOW_F32, DLFLOW_SUM);
          dlflow_status status = DLFLOW_PENDING;
          while (status == DLFLOW_PENDING && std::chrono::steady_clock::now() < deadline) {
            status = dlflow_work_advance(self.work, num_threads);
          }
          finish(status, self.work);
          same(values, std::vector<float>(values.size(), float(self.size)), "sum");
        }) == none(memories.size()));
}

TEST_CASE("an urgent sum overtakes one that was started before it", "[c_api]") {
  const auto memories = GENERATE(kNode, kNodes);
  std::atomic<int> overtaken = 0;
  CHECK(on_ranks(memories, [&](Rank& self) {
          const float sum = float(self.size * (self.size + 1) / 2);
          std::vector<float> large(8'000'000), small(10'000);
          const auto start = [&](std::vector<float>& values, int urgency, dlflow_work*& work) {
            std::ranges::fill(values, float(self.rank + 1));
            require(dlflow_urgent_all_reduce(self.group, values.data(), values.size(), DLFLOW_F32,
                                             DLFLOW_SUM, urgency, &work));
          };
          dlflow_work *slow = nullptr, *urgent = nullptr, *most = nullptr;
          for (int round = 0; round < 5; ++round) {
            std::vector<float> other(20'000);
            start(large, 0, slow);
            start(small, 2, urgent);
            start(other, 3, most);
            require(dlflow_work_wait(urgent, kTimeout));
            if (dlflow_work_test(slow) == DLFLOW_PENDING) ++overtaken;
            finish(DLFLOW_OK, slow);
            finish(DLFLOW_OK, most);
            dlflow_work_free(urgent);
            for (const auto& values : {small, large, other}) {
              same(values, std::vector(values.size(), sum), "sum");
            }
            // Starts other collectives for the first time while urgent sums are under way.
            start(small, 2, urgent);
            std::vector<double> doubles(5, 1.0);
            self.run(dlflow_all_reduce, doubles.data(), 5, DLFLOW_F64, DLFLOW_SUM);
            same(doubles, std::vector(5, double(self.size)), "doubles");
            finish(DLFLOW_OK, urgent);
          }
        }) == none(memories.size()));
  CHECK(overtaken > 0);
}

TEST_CASE("a receive from any rank takes each message once and names its sender", "[c_api]") {
  CHECK(on_ranks(kNodes, [](Rank& self) {
          int value = 10 * self.rank;
          if (self.rank != 0) {
            return self.run(dlflow_send, &value, sizeof value, 0, 7);
          }
          int last = -1;  // from a named sender: those from any have no order
          self.start(dlflow_receive, &last, sizeof value, 2, 7);
          std::vector<int> received(2);
          std::vector<dlflow_work*> works(2);
          for (size_t i = 0; i < 2; ++i) {
            require(dlflow_receive_from_any(self.group, &received[i], sizeof value, 7, &works[i]));
          }
          std::vector<int> senders;
          for (size_t i = 0; i < 2; ++i) {
            require(dlflow_work_wait(works[i], kTimeout));
            senders.push_back(dlflow_work_source(works[i]));
            same(received[i], 10 * senders[i], "value");
            dlflow_work_free(works[i]);
          }
          std::ranges::sort(senders);
          same(senders, std::vector{1, 3}, "senders");
          finish(DLFLOW_OK, self.work);
          same(last, 20, "named");
        }) == none(4));
}

TEST_CASE("works that start together end in order, and a queue reports each", "[c_api]") {
  CHECK(on_ranks(kNode, [](Rank& self) {
          constexpr uint64_t kWorks = 50;
          std::vector<std::vector<float>> values(kWorks, std::vector<float>(1000, 1));
          std::vector<dlflow_work*> works(kWorks);
          dlflow_queue* const queue = dlflow_queue_create();
          for (size_t i = 0; i < kWorks; ++i) {
            require(dlflow_all_reduce(self.group, values[i].data(), 1000, DLFLOW_F32, DLFLOW_SUM,
                                      &works[i]));
            dlflow_work_notify(works[i], queue, i);
          }
          for (uint64_t i = 0; i < kWorks; ++i) {
            uint64_t id = kWorks;
            require(dlflow_queue_pop(queue, kTimeout, &id));
            same(id, i, "order");
            same(dlflow_work_test(works[id]), DLFLOW_OK, "test");
            same(values[id], std::vector<float>(1000, 3), "sum");
            dlflow_work_free(works[id]);
          }
          uint64_t id = 0;
          same(dlflow_queue_pop(queue, 0, &id), DLFLOW_PENDING, "empty queue");
          dlflow_queue_free(queue);
        }) == none(3));
}

TEST_CASE("ranks that call different collectives all learn the call of each rank", "[c_api]") {
  const auto memories = GENERATE(kNode, kNodes);
  const auto op = GENERATE(DLFLOW_MAX, DLFLOW_SUM);
  const size_t count = GENERATE(10, 1'000'000);
  const auto errors = on_ranks(memories, [&](Rank& self) {
    std::vector<float> values(count + 1);
    self.run(dlflow_all_reduce, values.data(), self.rank == 1 ? count + 1 : count, DLFLOW_F32, op);
    throw std::runtime_error("a sum of different sizes was told to rank " +
                             std::to_string(self.rank));
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::Matches("call \\d+ is not the same on all ranks: rank 1 \\(node \\S+\\) "
                              "all-reduce( \\(max\\))? of 10*1 fp32; ranks 0, 2.* "
                              "all-reduce( \\(max\\))? of 10* fp32; .*"));
  }
}

TEST_CASE("a rank that leaves early is named to the others at their next call", "[c_api]") {
  const auto errors = on_ranks(
      kNode,
      [](Rank& self) {
        if (self.rank == 2) return;
        self.run(dlflow_barrier);
      },
      kTimeout, 500);
  CHECK_THAT(errors[0], Catch::Contains("rank 2"));
  CHECK_THAT(errors[1], Catch::Contains("rank 2"));
  CHECK(errors[2].empty());
}

TEST_CASE("a rank that leaves waits for the others up to its own limit", "[c_api]") {
  CHECK(on_ranks(kNode, [](Rank& self) {
          self.run(dlflow_barrier);
          const auto start = std::chrono::steady_clock::now();
          if (self.rank != 1) return std::this_thread::sleep_for(std::chrono::seconds(2));
          dlflow_group_free(std::exchange(self.group, nullptr), 100);
          if (std::chrono::steady_clock::now() - start > std::chrono::milliseconds(1500)) {
            throw std::runtime_error("waited for longer");
          }
        }) == none(3));
}

TEST_CASE("ranks missing at a monitored barrier are named on all ranks", "[c_api]") {
  const auto errors = on_ranks(kNodes, [](Rank& self) {
    if (self.rank == 1 || self.rank == 3) std::this_thread::sleep_for(std::chrono::seconds(2));
    self.run(dlflow_monitored_barrier, 300);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("these ranks have not arrived: 1, 3"));
  }
}

TEST_CASE("an operation without progress fails after the group's timeout", "[c_api]") {
  const auto errors = on_ranks(
      kNode,
      [](Rank& self) {
        int value = 0;
        if (self.rank == 0) {
          self.run(dlflow_receive, &value, 4, 2, 0);
        } else {
          std::this_thread::sleep_for(std::chrono::seconds(1));
        }
      },
      300, 500);
  CHECK_THAT(errors[0], Catch::Contains("rank 2 did not answer within 0.3 s"));
}

TEST_CASE("a call with invalid arguments is refused before it starts", "[c_api]") {
  CHECK(on_ranks(kOne, [](Rank& self) {
          const auto refused = [&](dlflow_status status, const std::string& why) {
            same(status, DLFLOW_INVALID, "status");
            same(std::string(dlflow_error()), why, "reason");
          };
          float value = 0;
          refused(dlflow_reduce(self.group, &value, 1, DLFLOW_F32, DLFLOW_SUM, 1, &self.work),
                  "the root is rank 1, but the group has ranks 0 to 0");
          refused(dlflow_send(self.group, &value, 4, 0, -1, &self.work),
                  "the tag is -1; 0 to 2^30 are allowed");
          refused(dlflow_urgent_all_reduce(self.group, &value, 1, DLFLOW_F32, DLFLOW_SUM, 4,
                                           &self.work),
                  "the urgency is 4; 0 to 3 are allowed");
          const size_t one = 1, two = 2;
          refused(dlflow_all_to_all(self.group, &value, &one, &value, &two, &self.work),
                  "all-to-all: rank 0 sends itself 1 bytes and expects 2");
        }) == none(1));
}

TEST_CASE("a rank's death is noticed although its child lives on", "[c_api]") {
  dlflow_endpoint* endpoints[2];
  const char* addresses[2];
  for (int i = 0; i < 2; ++i) {
    require(dlflow_endpoint_open(nullptr, &endpoints[i]));
    addresses[i] = dlflow_endpoint_address(endpoints[i]);
  }
  int end[2];  // open for as long as the grandchild should live
  REQUIRE(::pipe(end) == 0);
  const dlflow_group_options options{kTimeout, 60'000, nullptr};
  dlflow_group* group = nullptr;
  const pid_t rank1 = ::fork();
  if (rank1 == 0) {
    ::close(end[1]);
    dlflow_work* work = nullptr;
    require(dlflow_group_create(endpoints[1], 1, 2, addresses, &options, &group));
    finish(dlflow_barrier(group, &work), work);
    if (::fork() == 0) {
      char nothing;
      (void)!::read(end[0], &nothing, 1);
    }
    ::_exit(0);
  }
  require(dlflow_group_create(endpoints[0], 0, 2, addresses, &options, &group));
  dlflow_work* work = nullptr;
  finish(dlflow_barrier(group, &work), work);
  ::waitpid(rank1, nullptr, 0);
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(dlflow_barrier(group, &work) == DLFLOW_OK);
  CHECK(dlflow_work_wait(work, kTimeout) == DLFLOW_UNAVAILABLE);
  CHECK_THAT(dlflow_error(), Catch::Contains("rank 1 (node "));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  dlflow_work_free(work);
  dlflow_group_free(group, 0);
  ::close(end[1]);
  for (dlflow_endpoint* endpoint : endpoints) dlflow_endpoint_free(endpoint);
}
