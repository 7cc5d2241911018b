"""dlflow data pack with text: byte pairs, bytes, their splits and mistakes."""

import json
import os
import shutil
import struct
import subprocess
import unittest

from support import BIN, ROOT, Case, main

HAS_PAIRS = "libsentencepiece" in subprocess.run(["objdump", "-p", BIN / "dlflow-tokenize"], capture_output=True, text=True).stdout
PAGES = ROOT / "docs/user"


def tokens_of(path):
    """The samples of a .dlset file, and the tokenizer that it names."""
    content = path.read_bytes()
    kind, count = struct.unpack_from("<IQ", content, 12)
    length, = struct.unpack_from("<I", content, 32)
    begin, size = 128 + 4 * count, 4 if kind == 1 else 1
    values = struct.unpack_from(f"<{count * length}{'f' if kind == 1 else 'B'}", content, begin)
    assert len(content) > begin + count * length * size
    return [list(map(int, values[i:i + length])) for i in range(0, count * length, length)], content[112:128].hex()


class Text(Case):
    def pages(self, *more, status=0):
        return self.dlflow("data", "pack", PAGES, "--pattern", "tutorial-*.md", "-o", "set", *more, status=status)

    def test_bytes_are_tokens_and_their_documents_end_with_zeros(self):
        self.write("a.txt", "hello")
        self.write("b.txt", "world!\n")
        out, _ = self.dlflow("data", "pack", "a.txt", "b.txt", "-o", "set", "--tokens", "bytes", "--length", "4")
        self.assertEqual(out, "set/train.dlset: 3 samples of 4 tokens, vocabulary 256, 0.92 bytes per token; 2 documents, 2 tokens left over\n")
        samples, _ = tokens_of(self.folder / "set/train.dlset")
        self.assertEqual(bytes(sum(samples, [])), b"hello\0world!")
        shown = json.loads(self.dlflow("data", "show", "set", "--json")[0])[0]
        self.assertEqual((shown["samples"], shown["length"], shown["vocabulary"], shown["tokens"], shown["text_bytes"]), (3, 4, 256, 12, 11))
        self.assertEqual(sorted(file.name for file in (self.folder / "set").iterdir()), ["train.dlset"])
        self.dlflow("data", "verify", "set")
        self.assertIn("FIRST SAMPLE\nhell\n", self.dlflow("data", "show", "set")[0])

    def test_each_document_or_line_can_be_a_sample_of_its_own_length(self):
        self.write("a.txt", "hello\n\n12345678\r\nx")
        self.write("b.txt", "abcdefghi")
        out, _ = self.dlflow("data", "pack", "a.txt", "b.txt", "-o", "lines", "--tokens", "bytes", "--per", "line", "--length", "8")
        self.assertEqual(out, "lines/train.dlset: 5 samples of up to 8 tokens, 5.2 on average, vocabulary 256, 0.88 bytes per token; "
                              "4 lines, 1 cut at 8 tokens, 1 token left over\n")
        content = (self.folder / "lines/train.dlset").read_bytes()
        self.assertEqual(struct.unpack_from("<IIQIII", content, 8), (6, 3, 5, 1, 1, 8))
        self.assertEqual(struct.unpack_from("<5Q", content, 128), (6, 14, 16, 24, 26))
        self.assertEqual(content[128 + 60:128 + 86], b"hello\x0012345678x\0abcdefghi\0")
        shown = json.loads(self.dlflow("data", "show", "lines", "--json")[0])[0]
        self.assertEqual((shown["samples"], shown["length"], shown["tokens"], shown["unequal"], shown["text_bytes"]), (5, 8, 26, True, 23))
        self.assertIn("FIRST SAMPLE\nhello<|endoftext|>\n", self.dlflow("data", "show", "lines")[0])
        self.dlflow("data", "verify", "lines")
        self.dlflow("data", "pack", "lines", "-o", "shards", "--shards", "2")  # again, from a set
        self.assertEqual(json.loads(self.dlflow("data", "show", "shards", "--json")[0])[0]["tokens"], 26)
        self.dlflow("data", "verify", "shards")
        packed = json.loads(self.dlflow("data", "pack", "a.txt", "b.txt", "-o", "documents", "--tokens", "bytes", "--per", "document", "--json")[0])
        self.assertEqual((packed["samples"], packed["documents"], packed["cut"], packed["tokens"], packed["unequal"]), (2, 2, 0, 29, True))
        damaged = bytearray(content)
        damaged[128] = 5
        (self.folder / "lines/train.dlset").write_bytes(damaged)
        self.assertIn("its SHA-256 does not hold", self.dlflow("data", "verify", "lines", status=1)[0])

    def test_folders_name_the_classes_of_texts(self):
        for name, text in (("news/b/1.txt", "hello"), ("news/a/x/2.txt", "12345678901"), ("news/a/3.txt", "one\n\ntwo")):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            self.write(name, text)
        words = ("--tokens", "bytes", "--length", "8", "--labels", "folders")
        out, _ = self.dlflow("data", "pack", "news", "-o", "set", "--per", "document", *words)
        self.assertEqual(out, "set/train.dlset: 3 samples of up to 8 tokens, 7.3 on average, in 2 classes, vocabulary 256, 0.95 bytes per token; "
                              "3 documents, 2 cut at 8 tokens, 5 tokens left over\n")
        content = (self.folder / "set/train.dlset").read_bytes()
        self.assertEqual(struct.unpack_from("<IIQIIII", content, 8), (7, 3, 3, 1, 1, 8, 2))
        self.assertEqual(struct.unpack_from("<I", content, 108), (256,))
        self.assertEqual(struct.unpack_from("<3Q3I", content, 128), (8, 16, 22, 0, 0, 1))
        self.assertEqual(content[164:186], b"one\n\ntwo12345678hello\0")
        self.assertEqual((self.folder / "set/classes.txt").read_text(), "a\nb\n")
        shown = json.loads(self.dlflow("data", "show", "set", "--json")[0])[0]
        self.assertEqual((shown["vocabulary"], shown["tokens"]), (256, 22))
        self.assertEqual(shown["classes"], [{"label": 0, "name": "a", "samples": 2}, {"label": 1, "name": "b", "samples": 1}])
        self.assertIn("CLASS  SAMPLES  NAME\n    0        2  a\n", self.dlflow("data", "show", "set")[0])
        self.dlflow("data", "verify", "set")
        out = self.dlflow("data", "pack", "set", "-o", "shards", "--shards", "2")[0]  # again, from a set
        self.assertEqual(out, "shards/train.shards.json: 3 samples of up to 8 tokens, 7.3 on average, in 2 classes, vocabulary 256, "
                              "0.95 bytes per token, 2 shards\n")
        self.assertEqual((self.folder / "shards/classes.txt").read_text(), "a\nb\n")
        self.dlflow("data", "verify", "shards")
        packed = json.loads(self.dlflow("data", "pack", "news", "-o", "lines", "--per", "line", *words, "--json")[0])
        self.assertEqual((packed["samples"], packed["classes"], packed["vocabulary"]), (4, 2, 256))
        for options, error in ((["news", "--per", "document", "--labels", "names"], "--labels"), (["news", *words], "say with --per document"),
                               (["news/a", "--per", "document", *words], "3.txt: is in no folder that names its class"),
                               (["news", "--labels", "folders"], "--labels and --pattern are for text")):
            with self.subTest(options):
                self.assertIn(error, self.dlflow("data", "pack", *options, "-o", "no", status=2)[1])
        self.dlflow("data", "pack", "news", "-o", "split", "--per", "document", *words)
        (self.folder / "test/b").mkdir(parents=True)
        self.write("test/b/1.txt", "hello")
        self.dlflow("data", "pack", "test", "-o", "split", "--per", "document", *words, "--split", "test")  # it lacks a class
        self.assertEqual([c["samples"] for c in json.loads(self.dlflow("data", "show", "split", "--json")[0])[1]["classes"]], [0, 1])
        (self.folder / "test/caf\n").mkdir()
        self.write("test/caf\n/1.txt", "hello")
        _, err = self.dlflow("data", "pack", "test", "-o", "no", "--per", "document", *words, status=2)
        self.assertIn("the folder 'caf\\n' names a class, and its name has control characters; rename it", err)
        (self.folder / "news/b").rename(self.folder / "news/c")
        _, err = self.dlflow("data", "pack", "news", "-o", "set", "--per", "document", *words, "--split", "test", status=2)
        self.assertIn("has the classes a, b, the source has a, c", err)

    def test_a_table_has_a_column_of_texts_and_one_of_classes(self):
        self.write("reviews.csv", 'stars,id,review\n10,7,good\n9,8,"so, ""so"" or\nworse"\n10,9,fine\n')
        words = ("--tokens", "bytes", "--length", "8")
        out, _ = self.dlflow("data", "pack", "reviews.csv", "-o", "set", "--text", "review", "--class", "stars", *words)
        self.assertEqual(out, "set/train.dlset: 3 samples of up to 8 tokens, 6.0 on average, in 2 classes, vocabulary 256, 0.89 bytes per token; "
                              "3 rows, 1 cut at 8 tokens, 10 tokens left over\n")
        content = (self.folder / "set/train.dlset").read_bytes()
        self.assertEqual(struct.unpack_from("<3Q3I", content, 128), (5, 13, 18, 1, 0, 1))  # labels in the order of numbers
        self.assertEqual(content[164:182], b'good\0so, "so"fine\0')
        self.assertEqual((self.folder / "set/classes.txt").read_text(), "9\n10\n")
        self.dlflow("data", "verify", "set")
        # The rows follow each other, as documents do, or are samples, if the table has no classes.
        out, _ = self.dlflow("data", "pack", "reviews.csv", "-o", "model", "--text", "review", *words)
        self.assertIn("; 3 rows, ", out)
        out, _ = self.dlflow("data", "pack", "reviews.csv", "reviews.csv", "-o", "rows", "--text", "review", "--per", "document", *words)
        self.assertIn("rows/train.dlset: 10 samples of up to 8", out)
        packed = json.loads(self.dlflow("data", "pack", "reviews.csv", "-o", "lines", "--text", "review", "--class", "stars", "--per", "line",
                                        *words, "--json")[0])
        self.assertEqual((packed["samples"], packed["classes"]), (4, 2))
        shares = self.dlflow("data", "pack", "reviews.csv", "-o", "shares", "--text", "review", "--class", "stars", "--test-share", "0.4", *words)[0]
        self.assertIn("shares/test.dlset", shares)

    def test_mistakes_in_a_table_of_texts_are_told_with_their_places(self):
        (self.folder / "bad.csv").write_bytes(b"review,stars\n,1\nfine,\n\xe9t\xe9,2\nok\na\0b,1\n")
        self.write("good.csv", "review,stars\na,1\nb,1\n")
        self.write("a.txt", "hello")
        text = ("--text", "review", "--class", "stars")
        _, err = self.dlflow("data", "pack", "bad.csv", "-o", "set", *text, "--tokens", "bpe:300", status=2)
        for line in ("bad.csv:2:1: is empty; write a text, or leave the row out (column 'review')", "bad.csv:3:6: is empty; write the name of a class",
                     "bad.csv:4:1: is not UTF-8; convert the file with iconv", "bad.csv:5:1: the row has 1 values, the header 2 columns",
                     "bad.csv:6:1: has a NUL byte, which no text has"):
            self.assertIn(line, err)
        for words, error in ((["good.csv", *text], "--text, --length, --per, --labels and --pattern are for text; add --tokens"),
                             (["good.csv", *text, "--tokens", "bytes"], "all rows are of the class '1'"),
                             (["good.csv", "--class", "stars", "--tokens", "bytes"], "write --text COLUMN, too"),
                             (["good.csv", "--text", "revue", "--tokens", "bytes"], "did you mean 'review'?"),
                             (["good.csv", "--text", "stars", "--class", "stars", "--tokens", "bytes"], "'stars' is named twice"),
                             (["good.csv", *text, "--labels", "folders", "--per", "line", "--tokens", "bytes"], "--class names the column"),
                             (["a.txt", *text, "--tokens", "bytes"], "a.txt is none")):
            with self.subTest(words):
                self.assertIn(error, self.dlflow("data", "pack", *words, "-o", "set", status=2)[1])
        self.assertFalse((self.folder / "set").exists())

    def test_what_is_no_text_is_told_with_its_place(self):
        (self.folder / "a.txt").write_bytes(b"fine\n")
        (self.folder / "b.txt").write_bytes(b"one\ntwo \xe9\n")
        _, err = self.dlflow("data", "pack", ".", "-o", "set", "--tokens", "bpe:300", status=2)
        self.assertIn("b.txt:2:5: is not UTF-8 (byte 0xe9); convert the file with iconv", err)
        self.assertFalse((self.folder / "set").exists())

    def test_mistakes_in_options_say_what_to_write(self):
        self.write("a.txt", "hello")
        for options, error in ((["--tokens", "bpe"], "--tokens bpe: write bytes, or bpe:SIZE"),
                               (["--tokens", "bpe:0"], "at most 1,048,576: bpe:4096"),
                               (["--tokens", "bytes", "--length", "9"], "the training text has 6 tokens, and a sample 9"),
                               (["--tokens", "bytes", "--resize", "8"], "--tokens and --tokenizer are for text"),
                               (["--tokens", "bytes", "--test-share", "0.5"], "none would be in the t"),
                               (["--tokens", "bpe:300", "--split", "test"], "pack the training split first"),
                               (["--tokenizer", "a.txt"], "a.txt: is not a tokenizer of SentencePiece")):
            with self.subTest(options):
                _, err = self.dlflow("data", "pack", "a.txt", "-o", "set", *options, status=2)
                self.assertIn(error, err)
        _, err = self.dlflow("data", "pack", "a.txt", "a.txt", "a.txt", "-o", "set", status=2)
        self.assertIn("3 sources: only text may have more than two; add --tokens", err)
        _, err = self.dlflow("data", "pack", "a.txt", "-o", "set", "--length", "4", status=2)
        self.assertIn("--length, --per, --labels and --pattern are for text; add --tokens if it is", err)

    def test_networks_are_compared_with_the_vocabulary_before_any_job(self):
        self.write("a.txt", "hello, all the world " * 40)
        self.dlflow("data", "pack", "a.txt", "-o", "set", "--tokens", "bytes", "--length", "8")
        self.write("m.yaml", "name: m\ninput: [8]\nlayers: [{embedding: {name: e, vocabulary: 99, features: 4}}, {linear: {features: 99}}]\nloss: next_token\n")
        self.write("w.yaml", "name: w\nsteps: {t: {uses: train, with: {model: m.yaml, data: set, epochs: 1, lr: 0.1}}}\n")
        _, err = self.dlflow("validate", "w.yaml", status=2)
        self.assertIn("model 'm' has 'vocabulary: 99' in 'e', set has 256 tokens; write 'vocabulary: 256'", err)
        _, err = self.dlflow("init", "set", status=2)
        self.assertIn("holds tokens of text; begin with a copy of workflows/language-model.yaml", err)


@unittest.skipUnless(HAS_PAIRS, "dlflow-tokenize was built without SentencePiece")
class BytePairs(Case):
    pages = Text.pages

    def test_the_same_text_gives_the_same_bytes_and_comes_back_from_its_tokens(self):
        out, _ = self.pages("--tokens", "bpe:600", "--length", "32")
        self.assertRegex(out, r"^set/train.dlset: \d+ samples of 32 tokens, vocabulary 600, \d\.\d\d bytes per token; \d documents, \d+ tokens? left over\n$")
        self.dlflow("data", "pack", PAGES, "--pattern", "tutorial-*.md", "-o", "again", "--tokens", "bpe:600", "--length", "32")
        for name in ("train.dlset", "tokenizer.model"):
            self.assertEqual((self.folder / "set" / name).read_bytes(), (self.folder / "again" / name).read_bytes(), name)
        shown = json.loads(self.dlflow("data", "show", "set", "--json")[0])[0]
        samples, tokenizer = tokens_of(self.folder / "set/train.dlset")
        first = sorted(PAGES.glob("tutorial-*.md"))[0].read_text()
        self.assertTrue(first.startswith(shown["first_sample"]), shown["first_sample"])
        self.assertEqual(shown["tokenizer"], tokenizer)
        self.assertGreater(shown["bytes_per_token"], 1.7)
        documents = len(list(PAGES.glob("tutorial-*.md")))
        self.assertIn(sum(row.count(1) for row in samples), (documents - 1, documents))  # the last end may be left over
        self.assertTrue(all(0 <= token < 600 for row in samples for token in row))
        self.dlflow("data", "verify", "set")
        self.dlflow("data", "pack", "set", "-o", "shards", "--shards", "2")  # tokens that are packed already keep their tokenizer
        self.assertEqual(json.loads(self.dlflow("data", "show", "shards", "--json")[0])[0]["text_bytes"], shown["text_bytes"])

    def test_splits_share_the_tokenizer_of_the_training_text(self):
        out, _ = self.dlflow("data", "pack", PAGES, "--pattern", "*.md", "-o", "set", "--tokens", "bpe:500", "--length", "16", "--test-share", "0.3")
        self.assertEqual([line.split(":")[0] for line in out.splitlines()], ["set/train.dlset", "set/test.dlset"])
        test = {name: tokens_of(self.folder / "set" / f"{name}.dlset")[1] for name in ("train", "test")}
        self.assertEqual(test["train"], test["test"])
        self.write("more.txt", "A text of its own. " * 20)
        self.dlflow("data", "pack", "more.txt", "-o", "set", "--tokenizer", "set/tokenizer.model", "--split", "validation", "--length", "16")
        self.assertEqual(tokens_of(self.folder / "set/validation.dlset")[1], test["train"])
        shutil.rmtree(self.folder / "again", ignore_errors=True)
        self.dlflow("data", "pack", PAGES, "--pattern", "tutorial-*.md", "-o", "again", "--tokens", "bpe:400", "--length", "16", "--shards", "3")
        for options, error in ((["--tokens", "bpe:400"], "write --tokenizer set/tokenizer.model instead of --tokens"),
                               (["--tokenizer", "again/tokenizer.model"], "set/tokenizer.model is another tokenizer than again/tokenizer.model")):
            (self.folder / "set/test.dlset").unlink(missing_ok=True)
            _, err = self.dlflow("data", "pack", "more.txt", "-o", "set", "--split", "test", *options, status=2)
            self.assertIn(error, err)
        shutil.copy(self.folder / "set/tokenizer.model", self.folder / "again/tokenizer.model")
        self.assertIn("is not the tokenizer that made the data beside it", self.dlflow("data", "verify", "again", status=1)[0])
        self.assertIn("is not the tokenizer that made the data beside it", self.dlflow("data", "show", "again", status=2)[1])

    def test_the_workflow_language_model_trains_evaluates_and_exports(self):
        if not (BIN / "dlflow-train").exists():
            self.skipTest("built without dlflow-train")
        self.write("language-model.yaml", (ROOT / "workflows/language-model.yaml").read_text())
        model = (ROOT / "workflows/models/gpt-pairs.yaml").read_text().replace("128", "32").replace("4096", "400").replace("features: 384", "features: 96")
        self.write("models/small.yaml", model)
        settings = {"folder": PAGES, "pattern": '"*.md"', "tokens": "bpe:400", "length": 32, "model": "small", "epochs": 1, "ranks": 1, "bits_per_byte": 6}
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        result = self.run_json("language-model.yaml", *words, env={"PATH": f"{BIN}:{os.environ['PATH']}"}, timeout=100)
        self.assertEqual(result["state"], "succeeded")
        self.assertTrue(list(self.folder.glob("dlflow-runs/*/steps/best/outputs/model.onnx")))

    def test_a_vocabulary_beyond_the_text_is_refused_with_the_largest_that_it_allows(self):
        _, err = self.pages("--tokens", "bpe:100000", status=2)
        self.assertRegex(err, r"a vocabulary of 100000 tokens: the text has pairs for \d+ tokens; choose at most that, or add text")
        _, err = self.pages("--tokens", "bpe:260", status=2)
        self.assertRegex(err, r"bytes and the characters of the text need \d+ tokens; choose more than that")
        self.assertFalse((self.folder / "set").exists())


if __name__ == "__main__":
    main()
