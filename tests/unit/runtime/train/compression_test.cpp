// Tests training with compressed gradients: its results and its checkpoints.
#include <algorithm>

#include "runtime/settings/parts.h"
#include "runtime/train/compression_state.h"
#include "runtime/train/gradient_compression.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/train/tiny_job.h"

using namespace dlflow;
using namespace dlflow::runtime;
using test::kGoOn;
using test::kStop;
using test::newest_bits;
using test::train_in_parts;

namespace {

// Weights of 4096 and 2304 numbers, large enough for compression; one of 216, which is not.
constexpr const char* kModel = R"(name: small
input: [1, 8, 8]
layers:
  - conv2d: {name: conv, channels: 16, kernel: 3, padding: 1}
  - batch_norm: {name: bn}
  - relu
  - conv2d: {name: conv2, channels: 16, kernel: 3, padding: 1}
  - relu
  - flatten
  - linear: {name: fc, features: 4}
  - relu
  - linear: {name: out, features: 3}
)";

TrainingJob job_in(const std::filesystem::path& folder, const std::optional<Compression>& how,
                   uint64_t epochs = 6) {
  TrainingJob job = test::tiny_job(folder, epochs);
  job.settings.precision = {false, 0};
  job.settings.lr = 0.02;
  job.settings.warmup_epochs = 0;
  job.settings.augmentation = {};
  job.settings.gradients.compression = how;
  if (how && how->momentum > 0) job.settings.update.optimizer.momentum = 0;
  job.model = parse_model(kModel, "small.yaml");
  job.data = test::tiny_dataset(455);
  return job;
}

Json train_on(int ranks, int ranks_per_node, const TrainingJob& job) {
  return test::train_on(ranks, job, kGoOn, ranks_per_node)[0].summary;
}

Compression named(CompressionMethod method) {
  Compression how{.method = method, .aggregation = Aggregation::AllGather, .density = 0.1};
  if (method == CompressionMethod::Dgc) how.momentum = 0.9;
  return how;
}

const std::vector<CompressionMethod> kAll = {
    CompressionMethod::Float16, CompressionMethod::BFloat16, CompressionMethod::Int8,
    CompressionMethod::TopK,    CompressionMethod::MsTopK,   CompressionMethod::RandomK,
    CompressionMethod::Dgc,     CompressionMethod::PowerSgd};

}  // namespace

TEST_CASE("every method learns as much as dense gradients do", "[compression]") {
  const test::TempDir dense_folder, folder;
  const Json dense = train_on(2, 1, job_in(dense_folder.path(), {}));
  CHECK(dense.at("accuracy") > 0.9);
  const CompressionMethod method = GENERATE(from_range(kAll));
  INFO(to_text(named(method)));
  const Json summary = train_on(2, 1, job_in(folder.path(), named(method)));
  CHECK(summary.at("accuracy") >= dense.at("accuracy").get<double>() - 0.04);  // 2 of 50 samples
  CHECK(summary.at("loss") != dense.at("loss"));
}

TEST_CASE("on one node nothing is left out unless every rank compresses", "[compression]") {
  const test::TempDir dense, nodes_only, ranks_too;
  Compression how = named(CompressionMethod::TopK);
  const auto loss = [](const test::TempDir& dir, const std::optional<Compression>& compression) {
    return train_on(2, 2, job_in(dir.path(), compression)).at("loss").get<double>();
  };
  how.aggregation = Aggregation::Hierarchical;
  CHECK(loss(nodes_only, how) == loss(dense, {}));
  how.aggregation = Aggregation::AllGather;
  const test::TempDir again;
  CHECK(loss(ranks_too, how) != loss(again, {}));
}

TEST_CASE("a compressed run that stops and continues ends with the bits of one that did not",
          "[compression]") {
  Compression how = named(GENERATE(CompressionMethod::MsTopK, CompressionMethod::Int8,
                                   CompressionMethod::Dgc, CompressionMethod::PowerSgd));
  const bool by_node = how.method == CompressionMethod::MsTopK;
  const int ranks_per_node = by_node ? GENERATE(2, 3) : 1;  // 3: the other node has one rank
  const int ranks = by_node ? 4 : 2;
  if (by_node) how.aggregation = Aggregation::Hierarchical;
  how.warmup_epochs = is_sparse(how.method) ? 1 : 0;
  const test::TempDir whole, parts;
  train_on(ranks, ranks_per_node, job_in(whole.path(), how, 2));
  train_in_parts(job_in(parts.path(), how, 2), std::vector<int>(4, ranks), ranks_per_node);
  CHECK(newest_bits(parts.path()) == newest_bits(whole.path()));
}

TEST_CASE("unsent gradients have the same sum on another number of ranks", "[compression]") {
  const NetworkSet networks(parse_model(kModel, "small.yaml"), 8, Network::Mode::Training);
  const WeightLayout& layout = *networks.layout();
  Compression how = named(CompressionMethod::Dgc);
  how.aggregation = GENERATE(Aggregation::AllGather, Aggregation::Hierarchical);
  const auto empty = [&] {
    return std::make_unique<CompressedSum>(how, CompressedParts{}, layout.size(), 1);
  };
  const test::TempDir folder;
  const std::filesystem::path file = folder.path() / "compression.safetensors";

  ThreadGroup before(3, std::chrono::seconds(60), 1);
  test::on_ranks(before, 3, [&](Communicator& comm) {
    const auto compressed = empty();
    for (size_t i = 0; i < layout.num_trainable(); ++i) {
      const Parameter& parameter = layout.parameters()[i];
      const std::vector<float> ones(layout.to_plain(compressed->residual(), i).size(), 1);
      layout.from_plain(ones, compressed->residual(), i);
      for (size_t at = parameter.offset; at < parameter.offset + parameter.size; ++at) {
        compressed->residual()[at] *= float(comm.rank() + 1);
        compressed->velocity()[at] = -compressed->residual()[at];
      }
    }
    const CompressionState state(comm, layout, compressed.get());
    if (comm.rank() == 0) write_safetensors(file, state.tensors().at("compression"));
    return 0;
  });

  const int ranks = GENERATE(1, 2, 3, 4, 7);
  const int ranks_per_node = GENERATE(1, 2);
  Checkpoint checkpoint;
  checkpoint.further.emplace("compression", Safetensors::open(file));
  ThreadGroup after(ranks, std::chrono::seconds(60), ranks_per_node);
  const auto loaded = test::on_ranks(after, ranks, [&](Communicator& comm) {
    const auto compressed = empty();
    load_compression(comm, layout, checkpoint, compressed.get());
    const auto values = compressed->residual(), velocity = compressed->velocity();
    const bool agree =
        std::ranges::equal(values, velocity, [](float r, float v) { return r == -v; });
    const bool speaks = how.aggregation == Aggregation::AllGather || comm.node_rank() == 0;
    return speaks && agree ? std::vector<float>(values.begin(), values.end())
                           : std::vector<float>{};
  });
  std::vector<float> sum(layout.size());
  for (const auto& of_place : loaded) {
    for (size_t i = 0; i < of_place.size(); ++i) sum[i] += of_place[i];
  }
  for (size_t i = 0; i < layout.num_trainable(); ++i) {
    const std::vector<float> plain = layout.to_plain(sum, i);
    CHECK(std::ranges::count(plain, 6.0f) == std::ptrdiff_t(plain.size()));  // 1 + 2 + 3
  }
}

TEST_CASE("a compressed run goes on with another number of ranks", "[compression]") {
  const test::TempDir folder;
  const Compression how = named(CompressionMethod::TopK);
  for (const int ranks : {4, 2, 3}) {
    CHECK_FALSE(test::train_on(ranks, job_in(folder.path(), how), kStop, 1)[0].finished);
  }
  CHECK(train_on(2, 1, job_in(folder.path(), how)).at("accuracy") > 0.85);
}

TEST_CASE("a NaN among gradients stops a compressed run in its step", "[compression]") {
  const CompressionMethod method = GENERATE(from_range(kAll));
  const test::TempDir folder;
  TrainingJob job = job_in(folder.path(), named(method));
  job.settings.lr = 1e30;
  CHECK_THROWS_AS(train_on(2, 1, job), Diverged);
}

TEST_CASE("matrices are compressed, and short weights are not", "[compression]") {
  const NetworkSet networks(parse_model(kModel, "small.yaml"), 8, Network::Mode::Training);
  const auto& parameters = networks.layout()->parameters();
  Compression how = named(CompressionMethod::PowerSgd);
  const CompressedGradients compressed = compressed_gradients(*networks.layout(), how, 0);
  std::vector<std::string> names;
  for (const size_t i : compressed.parameters) names.push_back(parameters[i].name);
  CHECK(names == std::vector<std::string>{"conv2.weight", "fc.weight"});
  REQUIRE(compressed.matrices.size() == 2);
  CHECK(compressed.matrices[0].rows.size() == 16);
  CHECK(compressed.matrices[0].columns.size() == 16 * 9);
  // Row 3, column 5 in PyTorch's order.
  std::vector<float> plain(16 * 16 * 9), buffer(networks.layout()->size());
  plain[3 * 16 * 9 + 5] = 1;
  networks.layout()->from_plain(plain, buffer, compressed.parameters[0]);
  const Matrix& matrix = compressed.matrices[0];
  CHECK(buffer[matrix.first + matrix.rows[3] + matrix.columns[5]] == 1);
}
