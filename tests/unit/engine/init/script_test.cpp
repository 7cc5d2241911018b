#include "engine/init/script.h"

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

std::string run_of(const ScriptTraits& traits) {
  return run_of_script(traits, {"python3", "train.py"});
}

}  // namespace

TEST_CASE("a script of torch.distributed with --resume goes on from its newest checkpoint",
          "[init]") {
  const ScriptTraits traits = traits_of_script(R"(
import torch.distributed as dist
parser.add_argument('--output-dir', default='.')
parser.add_argument("--resume", type=str, help="path")
dist.init_process_group("gloo")
torch.save({"model": model}, os.path.join(args.output_dir, f"model_{epoch}.pth"))
)");
  CHECK(traits.framework == "torch.distributed");
  CHECK(traits.takes_ranks);
  CHECK(traits.newer == "out/model_*.pth");
  CHECK(run_of(traits) == R"(|
      last=$(ls -dt out/model_*.pth 2>/dev/null | head -n 1) || true  # none in the first pass
      python3 train.py --output-dir out ${last:+--resume "$last"})");
}

TEST_CASE("an option --resume that is a flag gets no path", "[init]") {
  const ScriptTraits traits = traits_of_script(R"(
parser.add_argument("--resume", action="store_true")
torch.save(state, "ckpt/last.pt")
)");
  CHECK(traits.newer == "ckpt/last.pt");
  CHECK(run_of(traits).ends_with("python3 train.py ${last:+--resume}"));
}

TEST_CASE("a script that loads its own checkpoints is run unchanged", "[init]") {
  const ScriptTraits traits = traits_of_script(R"(
PATH = "ckpt/last.pt"
if os.path.exists(PATH):
    state = torch.load(PATH)
torch.save(state, PATH)
)");
  CHECK(traits.newer == "ckpt/last.pt");
  CHECK(run_of(traits) == "[python3, \"train.py\"]");
}

TEST_CASE("long lines of data are skipped", "[init]") {
  const std::string data = "x = '" + std::string(300'000, 'a') + "'\n";
  CHECK(traits_of_script(data + "#" + data + "import keras\n").framework == "Keras");
}

TEST_CASE("a file that a script saves and cannot load is not a checkpoint", "[init]") {
  const ScriptTraits traits = traits_of_script(R"(
# torch.save(old, "old.pt"); parser.add_argument("--resume")
torch.save(model.state_dict(), "model.pt")
torch.save(model.state_dict(), args.out)
model.save_pretrained("final")
)");
  CHECK(traits.newer.empty());
  CHECK(traits.saved == std::vector<std::string>{"model.pt", "final"});
  CHECK(run_of(traits) == "[python3, \"train.py\"]");
}

TEST_CASE("the Trainer of Hugging Face gets its options from HfArgumentParser", "[init]") {
  const ScriptTraits traits = traits_of_script(R"(
from transformers import HfArgumentParser, Trainer, TrainingArguments
parser = HfArgumentParser((ModelArguments, TrainingArguments))
trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
)");
  CHECK(traits.framework == "the HF Trainer");
  CHECK(traits.newer == "out/checkpoint-*");
  CHECK(run_of(traits).ends_with(
      "python3 train.py --output_dir out ${last:+--resume_from_checkpoint \"$last\"}"));
  const ScriptTraits fixed = traits_of_script(R"(
args = TrainingArguments(output_dir="results", num_train_epochs=3)
trainer.train(resume_from_checkpoint=get_last_checkpoint("results"))
)");
  CHECK(fixed.newer == "results/checkpoint-*");
  CHECK(run_of(fixed) == "[python3, \"train.py\"]");
}

TEST_CASE("accelerate saves folders below its option", "[init]") {
  const ScriptTraits traits = traits_of_script(R"(
accelerator = Accelerator()
parser.add_argument("--output_dir")
parser.add_argument("--resume_from_checkpoint")
output_dir = f"step_{steps}"
output_dir = os.path.join(args.output_dir, output_dir)
accelerator.save_state(output_dir)
)");
  CHECK(traits.framework == "accelerate");
  CHECK(traits.newer == "out/step_*");
}

TEST_CASE("Lightning sets its number of ranks", "[init]") {
  const ScriptTraits traits = traits_of_script(R"(
import lightning as L
trainer = L.Trainer(devices=2, num_nodes=3, callbacks=[ModelCheckpoint(dirpath="ckpt", save_last=True)])
trainer.fit(model, ckpt_path="last")
)");
  CHECK(traits.framework == "Lightning");
  CHECK(traits.ranks_per_node == 2);
  CHECK(traits.nodes == 3);
  CHECK(traits.newer == "ckpt/*.ckpt");
  CHECK(traits.resume.empty());
  const ScriptTraits usual =
      traits_of_script("from lightning import Trainer\nfit(m, ckpt_path='last')");
  CHECK(usual.newer == "lightning_logs/version_*/checkpoints/*.ckpt");
  CHECK(usual.ranks_per_node == 0);
}

TEST_CASE("Keras saves by ModelCheckpoint or BackupAndRestore", "[init]") {
  const ScriptTraits traits = traits_of_script(R"(
from tensorflow import keras
saves = keras.callbacks.ModelCheckpoint("ckpt/{epoch:02d}.keras")
model.load_weights("ckpt/01.keras")
)");
  CHECK(traits.framework == "Keras");
  CHECK(traits.newer == "ckpt/*.keras");
  CHECK(traits_of_script("import keras\nBackupAndRestore(backup_dir='backup')").newer ==
        "backup/*");
}
