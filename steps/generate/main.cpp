#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/shared_bytes.h"
#include "runtime/data/file_writer.h"
#include "runtime/generate/generation.h"
#include "runtime/settings/with_reader.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/train/agreement.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/shared_checkpoint.h"
#include "runtime/train/training_state.h"
#include "steps/environment/step_environment.h"
#include "steps/ranks/program.h"

/// dlflow-generate: the step kind `generate`.
namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using runtime::IndexRange;
using runtime::Vocabulary;

constexpr const char* kTextFile = "samples.txt";
constexpr const char* kRecordFile = "samples.jsonl";

ProgramHelp program_help() {
  return {
      .name = "dlflow-generate",
      .summary = "Write text with a trained language model.",
      .commands = {{"dlflow-generate with.json", "one rank, results in the current folder"},
                   {"mpirun -np 2 dlflow-generate with.json",
                    "the same text; ranks share samples"}},
      .settings =
          "with.json has the keys of a `generate` step, documented in "
          "docs/user/workflow-format.md. The checkpoint\nis a folder and carries the model:",
      .example = R"({"checkpoint": "checkpoints/step-001720", "prompt": "The", "max_tokens": 100})",
      .variables = variables_of_ranks(),
      .exit_status = {{"0", "done"}, {"1", "it could not be done"}}};
}

/// The step's `with:`.
struct Request {
  std::string checkpoint, tokenizer, prompt;
  runtime::GenerationOptions options;
  size_t samples = 1;
};

std::string optional_text(runtime::WithReader& reader, const std::string& key) {
  const Json* const value = reader.find(key);
  if (value == nullptr) return {};
  if (!value->is_string()) runtime::WithReader::fail(key, "a text");
  return value->get<std::string>();
}

Request parse_request(const Json& with) {
  runtime::WithReader reader(with);
  Request request;
  request.checkpoint = reader.text("checkpoint");
  request.tokenizer = optional_text(reader, "tokenizer");
  request.prompt = optional_text(reader, "prompt");
  request.samples = reader.count("samples", 1, request.samples);
  request.options.max_tokens = reader.count("max_tokens", 1, request.options.max_tokens);
  request.options.seed = reader.count("seed", 0, 0);
  runtime::Sampling& sampling = request.options.sampling;
  sampling.temperature = reader.number("temperature", 0, sampling.temperature);
  sampling.top_k = reader.count("top_k", 1, std::numeric_limits<uint32_t>::max());
  sampling.top_p = reader.number("top_p", 0, sampling.top_p);
  if (sampling.top_p <= 0 || sampling.top_p > 1) {
    runtime::WithReader::fail("top_p", "above 0 and at most 1");
  }
  reader.finish();
  return request;
}

/// The tokenizer that the network was trained with; `state` names it, if its data did.
runtime::Tokenizer open_tokenizer(const Request& request, const runtime::TrainingState& state) {
  const std::string bytes = Vocabulary::bytes().id();
  if (request.tokenizer.empty()) {
    if (state.tokenizer.empty() || state.tokenizer == bytes) return {"", "bytes"};
    runtime::WithReader::refuse("tokenizer",
                                "is missing: the network was trained with byte pairs; write the "
                                "path of the tokenizer.model beside its training data");
  }
  runtime::Tokenizer tokenizer(read_file(request.tokenizer), request.tokenizer);
  if (!state.tokenizer.empty() && state.tokenizer != tokenizer.vocabulary().id()) {
    runtime::WithReader::refuse("tokenizer", "is " + request.tokenizer +
                                                 ", which is another one than the network was "
                                                 "trained with; the SHA-256 of that one begins "
                                                 "with " +
                                                 state.tokenizer);
  }
  return tokenizer;
}

/// A language model, and what it needs to write.
struct Writer {
  runtime::Model model;
  runtime::TokenNetwork network;
  runtime::Tokenizer tokenizer;
};

Writer open_writer(runtime::Communicator& comm, const Request& request) {
  const runtime::Checkpoint checkpoint = runtime::load_shared_checkpoint(comm, request.checkpoint);
  if (checkpoint.info.model.empty()) {
    throw Error(Errc::InvalidInput, "checkpoint: " + request.checkpoint +
                                        " was saved by a Python script, which alone knows its "
                                        "network; generate text there");
  }
  runtime::Model model = runtime::parse_model(checkpoint.info.model, request.checkpoint);
  runtime::require_weights(checkpoint, model);
  runtime::TokenNetwork network(model, [&](const std::string& name, size_t size) {
    std::vector<float> values(size);
    runtime::copy_elements<float>(checkpoint.model.at(name), values);
    return values;
  });
  return {std::move(model), std::move(network),
          open_tokenizer(request, runtime::training_state_of(checkpoint))};
}

/// One sample as a line of JSON. Bytes that are no UTF-8 become U+FFFD; `tokens` has them all.
std::string record_of(size_t sample, const std::string& prompt, const runtime::GeneratedText& text,
                      const Vocabulary& vocabulary) {
  const Json record = {{"sample", sample},
                       {"prompt", prompt},
                       {"text", vocabulary.decode(text.tokens)},
                       {"tokens", text.tokens},
                       {"ended", text.ended}};
  return record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

fs::path part_file(const fs::path& file, int rank) {
  return file.string() + ".rank-" + std::to_string(rank);
}

/// Joins what the ranks have written.
void join_parts(const fs::path& file, int num_ranks) {
  runtime::FileWriter whole(file);
  for (int rank = 0; rank < num_ranks; ++rank) {
    if (fs::file_size(part_file(file, rank)) == 0) continue;
    whole.write(map_file(part_file(file, rank)).view);
  }
  whole.publish();
  for (int rank = 0; rank < num_ranks; ++rank) fs::remove(part_file(file, rank));
}

/// Writes this rank's samples; the number of tokens in them.
size_t write_part(runtime::Communicator& comm, Writer& writer, const Request& request,
                  IndexRange samples, const fs::path& folder) {
  const int rank = comm.rank();
  const Vocabulary& vocabulary = writer.tokenizer.vocabulary();
  const std::vector<uint32_t> prompt = writer.tokenizer.encode(request.prompt);
  runtime::FileWriter text(part_file(folder / kTextFile, rank)),
      records(part_file(folder / kRecordFile, rank));
  size_t tokens = 0;
  for (size_t i = samples.first; i < samples.first + samples.count; ++i) {
    const runtime::GeneratedText sample =
        runtime::generate(writer.network, prompt, request.options, uint32_t(i));
    tokens += sample.tokens.size();
    records.write(record_of(i, request.prompt, sample, vocabulary));
    if (i > 0) text.write(std::string(runtime::kEndOfText) + "\n");
    text.write(request.prompt + vocabulary.decode(sample.tokens) + "\n");
  }
  text.publish();
  records.publish();
  return tokens;
}

void write_results(const StepEnvironment& environment, const Request& request, uint64_t tokens,
                   Clock::duration took) {
  const double speed = std::round(double(tokens) / std::chrono::duration<double>(took).count());
  std::printf("%zu sample%s, %llu tokens, %.0f tokens/s\n", request.samples,
              request.samples == 1 ? "" : "s", static_cast<unsigned long long>(tokens), speed);
  write_outputs(environment, {{"text", kTextFile}, {"samples", kRecordFile}});
  write_summary(environment,
                {{"samples", request.samples}, {"tokens", tokens}, {"tokens_per_s", speed}});
}

int generate_rank(runtime::Communicator& comm) {
  const StepEnvironment environment = read_step_environment();
  Request request = parse_request(environment.with);
  Writer writer = open_writer(comm, request);
  const Vocabulary& vocabulary = writer.tokenizer.vocabulary();
  runtime::require_agreement(comm, {{"the tokenizer", vocabulary.id()}});
  request.options.vocabulary = vocabulary.size();
  request.options.end_of_text = vocabulary.end_of_text();
  const auto started = Clock::now();
  const IndexRange part = runtime::part_of({0, request.samples}, comm.rank(), comm.size());
  const std::vector<uint64_t> tokens =
      runtime::gather(comm, uint64_t(write_part(comm, writer, request, part, environment.outputs)));
  if (comm.rank() != 0) return 0;
  for (const char* name : {kTextFile, kRecordFile}) {
    join_parts(environment.outputs / name, comm.size());
  }
  write_results(environment, request, std::accumulate(tokens.begin(), tokens.end(), uint64_t(0)),
                Clock::now() - started);
  return 0;
}

}  // namespace
}  // namespace dlflow::steps

int main(int argc, char** argv) {
  using namespace dlflow::steps;
  return run_program({.help = program_help(), .task = "generate", .work = generate_rank}, argc,
                     argv);
}
