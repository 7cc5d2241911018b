"""dlflow data pack with text and with finished tokens: splits and mistakes."""

import json
import os
import struct
import subprocess
import unittest

from support import BIN, ROOT, Case, main

VENV = BIN.parent / "venv/bin/python"
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
        self.dlflow("data", "pack", "lines", "-o", "shards", "--shards", "2")  # packed again, from a data set
        self.assertEqual(json.loads(self.dlflow("data", "show", "shards", "--json")[0])[0]["tokens"], 26)
        self.dlflow("data", "verify", "shards")
        packed = json.loads(self.dlflow("data", "pack", "a.txt", "b.txt", "-o", "documents", "--tokens", "bytes", "--per", "document", "--json")[0])
        self.assertEqual((packed["samples"], packed["documents"], packed["cut"], packed["tokens"], packed["unequal"]), (2, 2, 0, 29, True))
        damaged = bytearray(content)
        damaged[128] = 5
        (self.folder / "lines/train.dlset").write_bytes(damaged)
        self.assertIn("its SHA-256 does not match", self.dlflow("data", "verify", "lines", status=1)[0])

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
        out = self.dlflow("data", "pack", "set", "-o", "shards", "--shards", "2")[0]  # packed again, from a data set
        self.assertEqual(out, "shards/train.shards.json: 3 samples of up to 8 tokens, 7.3 on average, in 2 classes, vocabulary 256, "
                              "0.95 bytes per token, 2 shards\n")
        self.assertEqual((self.folder / "shards/classes.txt").read_text(), "a\nb\n")
        self.dlflow("data", "verify", "shards")
        packed = json.loads(self.dlflow("data", "pack", "news", "-o", "lines", "--per", "line", *words, "--json")[0])
        self.assertEqual((packed["samples"], packed["classes"], packed["vocabulary"]), (4, 2, 256))
        for options, error in ((["news", "--per", "document", "--labels", "names"], "--labels"), (["news", *words], "add --per document"),
                               (["news/a", "--per", "document", *words], "3.txt: is not in a folder that names its class"),
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
        self.assertIn("the folder 'caf\\n' names a class, but its name has control characters; rename it", err)
        (self.folder / "news/b").rename(self.folder / "news/c")
        _, err = self.dlflow("data", "pack", "news", "-o", "set", "--per", "document", *words, "--split", "test", status=2)
        self.assertIn("has the classes a, b, but the source has a, c", err)

    def test_a_table_has_a_column_of_texts_and_one_of_classes(self):
        self.write("reviews.csv", 'stars,id,review\n10,7,good\n9,8,"so, ""so"" or\nworse"\n10,9,fine\n')
        words = ("--tokens", "bytes", "--length", "8")
        out, _ = self.dlflow("data", "pack", "reviews.csv", "-o", "set", "--text", "review", "--class", "stars", *words)
        self.assertEqual(out, "set/train.dlset: 3 samples of up to 8 tokens, 6.0 on average, in 2 classes, vocabulary 256, 0.89 bytes per token; "
                              "3 rows, 1 cut at 8 tokens, 10 tokens left over\n")
        content = (self.folder / "set/train.dlset").read_bytes()
        self.assertEqual(struct.unpack_from("<3Q3I", content, 128), (5, 13, 18, 1, 0, 1))  # numeric order of labels
        self.assertEqual(content[164:182], b'good\0so, "so"fine\0')
        self.assertEqual((self.folder / "set/classes.txt").read_text(), "9\n10\n")
        self.dlflow("data", "verify", "set")
        # Without classes, the rows of the table are consecutive text, as documents are, or samples.
        out, _ = self.dlflow("data", "pack", "reviews.csv", "-o", "model", "--text", "review", *words)
        self.assertIn("; 3 rows, ", out)
        out, _ = self.dlflow("data", "pack", "reviews.csv", "reviews.csv", "-o", "rows", "--text", "review", "--per", "document", *words)
        self.assertIn("rows/train.dlset: 10 samples of up to 8", out)
        packed = json.loads(self.dlflow("data", "pack", "reviews.csv", "-o", "lines", "--text", "review", "--class", "stars", "--per", "line",
                                        *words, "--json")[0])
        self.assertEqual((packed["samples"], packed["classes"]), (4, 2))
        shares = self.dlflow("data", "pack", "reviews.csv", "-o", "shares", "--text", "review", "--class", "stars", "--test-share", "0.4", *words)[0]
        self.assertIn("shares/test.dlset", shares)

    def test_mistakes_in_a_table_of_texts_are_reported_with_their_places(self):
        (self.folder / "bad.csv").write_bytes(b"review,stars\n,1\nfine,\n\xe9t\xe9,2\nok\na\0b,1\n")
        self.write("good.csv", "review,stars\na,1\nb,1\n")
        self.write("a.txt", "hello")
        text = ("--text", "review", "--class", "stars")
        _, err = self.dlflow("data", "pack", "bad.csv", "-o", "set", *text, "--tokens", "bytes", status=2)
        for line in ("bad.csv:2:1: is empty; write a text, or leave the row out (column 'review')", "bad.csv:3:6: is empty; write the name of a class",
                     "bad.csv:5:1: the row has 1 values, but the header has 2 columns",
                     "bad.csv:6:1: has a NUL byte, which text cannot have"):
            self.assertIn(line, err)
        for words, error in ((["good.csv", *text], "--text, --length, --per, --labels and --pattern are for text; add --tokens"),
                             (["good.csv", *text, "--tokens", "bytes"], "all rows are of the class '1'"),
                             (["good.csv", "--class", "stars", "--tokens", "bytes"], "also write --text COLUMN"),
                             (["good.csv", "--text", "revue", "--tokens", "bytes"], "did you mean 'review'?"),
                             (["good.csv", "--text", "stars", "--class", "stars", "--tokens", "bytes"], "'stars' is named twice"),
                             (["good.csv", *text, "--labels", "folders", "--per", "line", "--tokens", "bytes"], "--class names the column"),
                             (["a.txt", *text, "--tokens", "bytes"], "a.txt is not one")):
            with self.subTest(words):
                self.assertIn(error, self.dlflow("data", "pack", *words, "-o", "set", status=2)[1])
        self.assertFalse((self.folder / "set").exists())

    def test_bytes_that_are_not_text_are_reported_with_their_place(self):
        (self.folder / "a.txt").write_bytes(b"fine \xe9\n")
        (self.folder / "b.txt").write_bytes(b"one\ntwo \0\n")
        _, err = self.dlflow("data", "pack", ".", "-o", "set", "--tokens", "bytes", status=2)
        self.assertIn("b.txt:2:5: is a NUL byte, which text cannot have", err)
        self.assertFalse((self.folder / "set").exists())

    def test_mistakes_in_options_are_answered_with_the_correct_form(self):
        self.write("a.txt", "hello")
        for options, error in ((["--tokens", "words"], "--tokens words: write bytes; other tokens are made in Python"),
                               (["--tokens", "bpe:4096"], "byte pairs are no longer made here; make the tokens in Python, with the package sentencepiece"),
                               (["--tokens", "bytes", "--length", "9"], "the training text has 6 tokens, but a sample takes 9"),
                               (["--tokens", "bytes", "--resize", "8"], "--tokens and --tokenizer are for text"),
                               (["--tokens", "bytes", "--test-share", "0.5"], "would be in the t")):
            with self.subTest(options):
                _, err = self.dlflow("data", "pack", "a.txt", "-o", "set", *options, status=2)
                self.assertIn(error, err)
        _, err = self.dlflow("data", "pack", "a.txt", "a.txt", "a.txt", "-o", "set", status=2)
        self.assertIn("3 sources: only text may have more than two; add --tokens", err)
        _, err = self.dlflow("data", "pack", "a.txt", "-o", "set", "--length", "4", status=2)
        self.assertIn("--length, --per, --labels and --pattern are for text; add --tokens if the source is text", err)

    def test_networks_are_compared_with_the_vocabulary_before_any_job(self):
        self.write("a.txt", "hello, all the world " * 40)
        self.dlflow("data", "pack", "a.txt", "-o", "set", "--tokens", "bytes", "--length", "8")
        self.write("m.yaml", "name: m\ninput: [8]\nlayers: [{embedding: {name: e, vocabulary: 99, features: 4}}, {linear: {features: 99}}]\nloss: next_token\n")
        self.write("w.yaml", "name: w\nsteps: {t: {uses: train, with: {model: m.yaml, data: set, epochs: 1, lr: 0.1}}}\n")
        _, err = self.dlflow("validate", "w.yaml", status=2)
        self.assertIn("model 'm' has 'vocabulary: 99' in 'e', but set has 256 tokens; write 'vocabulary: 256'", err)
        _, err = self.dlflow("init", "set", status=2)
        self.assertIn("holds tokens of text; begin with a copy of workflows/language-model.yaml", err)

    def test_the_workflow_language_model_trains_evaluates_and_exports(self):
        if not (BIN / "dlflow-train").exists():
            self.skipTest("built without dlflow-train")
        self.write("language-model.yaml", (ROOT / "workflows/language-model.yaml").read_text())
        model = (ROOT / "workflows/models/gpt-bytes.yaml").read_text().replace("128", "32")
        self.write("models/small.yaml", model)
        settings = {"folder": PAGES, "pattern": '"*.md"', "length": 32, "model": "small", "epochs": 1, "ranks": 1, "bits_per_byte": 8}
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        result = self.run_json("language-model.yaml", *words, env={"PATH": f"{BIN}:{os.environ['PATH']}"}, timeout=100)
        self.assertEqual(result["state"], "succeeded")
        self.assertTrue(list(self.folder.glob("dlflow-runs/*/steps/best/outputs/model.onnx")))


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def sentencepiece_model(*words, num_bytes=256):
    """A model as SentencePiece writes one: nothing known, the end of a text, bytes, then words; kinds of pieces are 2, 3, 6 and 1."""
    pieces = [("<unk>", 2), ("</s>", 3), *[(f"<0x{byte:02X}>", 6) for byte in range(num_bytes)], *[(word, 1) for word in words]]
    content = b""
    for text, kind in pieces:
        piece = b"\x0a" + varint(len(text.encode())) + text.encode() + b"\x15" + struct.pack("<f", -1) + b"\x18" + varint(kind)
        content += b"\x0a" + varint(len(piece)) + piece
    return content


class Tokens(Case):
    """Tokens made by the user's own Python: --tokenizer."""

    THE, DOG, END = 258, 259, 1

    def setUp(self):
        super().setUp()
        (self.folder / "pieces.model").write_bytes(sentencepiece_model("the", "\u2581dog"))

    def array(self, name, tokens, kind="<u2"):
        header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({len(tokens)},), }}".ljust(117) + "\n"
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() +
                         struct.pack(f"<{len(tokens)}{'H' if kind == '<u2' else 'q'}", *tokens))

    def pack(self, *words, status=0):
        return self.dlflow("data", "pack", *words, "--tokenizer", "pieces.model", status=status)

    def test_arrays_become_samples_and_their_tokenizer_lies_beside_them(self):
        self.array("a.npy", [self.THE, self.DOG, self.END, self.END, self.THE, 12], "<i8")  # its last document has no end of its own
        self.array("b.npy", [self.DOG, self.DOG, self.END])
        out, _ = self.pack("a.npy", "b.npy", "-o", "set", "--length", "4")
        self.assertEqual(out, "set/train.dlset: 2 samples of 4 tokens, vocabulary 260, 2.38 bytes per token; 3 documents, 1 token left over\n")
        samples, tokenizer = tokens_of(self.folder / "set/train.dlset")
        self.assertEqual(samples, [[self.THE, self.DOG, self.END, self.THE], [12, self.END, self.DOG, self.DOG]])
        self.assertEqual((self.folder / "set/tokenizer.model").read_bytes(), (self.folder / "pieces.model").read_bytes())
        shown = json.loads(self.dlflow("data", "show", "set", "--json")[0])[0]
        self.assertEqual((shown["tokenizer"], shown["text_bytes"], shown["first_sample"]), (tokenizer, 19, "the dog<|endoftext|>the"))
        self.dlflow("data", "verify", "set")
        self.dlflow("data", "pack", "set", "-o", "shards", "--shards", "2")  # packed tokens keep their tokenizer
        self.assertEqual(json.loads(self.dlflow("data", "show", "shards", "--json")[0])[0]["text_bytes"], 19)
        (self.folder / "shards/tokenizer.model").write_bytes(sentencepiece_model("cat"))
        self.assertIn("is not the tokenizer that made the data beside it", self.dlflow("data", "verify", "shards", status=1)[0])
        self.assertIn("is not the tokenizer that made the data beside it", self.dlflow("data", "show", "shards", status=2)[1])

    def test_documents_are_samples_of_the_classes_that_folders_name(self):
        self.array("news/a/1.npy", [self.THE, self.END, self.DOG, self.DOG, self.THE, self.END])
        self.array("news/b/1.npy", [self.DOG])
        self.write("news/b/notes.txt", "these are not read")
        out, _ = self.pack("news", "-o", "set", "--per", "document", "--labels", "folders", "--length", "3")
        self.assertEqual(out, "set/train.dlset: 3 samples of up to 3 tokens, 2.3 on average, in 2 classes, vocabulary 260, 2.57 bytes per token; "
                              "3 documents, 1 cut at 3 tokens, 1 token left over\n")
        content = (self.folder / "set/train.dlset").read_bytes()
        self.assertEqual(struct.unpack_from("<3Q3I7H", content, 128), (4, 10, 14, 0, 0, 1, self.THE, self.END, self.DOG, self.DOG, self.THE, self.DOG, self.END))
        self.array("many.npy", [self.THE, self.END] * 40)
        out, _ = self.pack("many.npy", "-o", "parts", "--per", "document", "--test-share", "0.4")
        self.assertEqual([line.split(":")[0] for line in out.splitlines()], ["parts/train.dlset", "parts/test.dlset"])

    def test_all_splits_have_one_tokenizer(self):
        self.array("a.npy", [self.THE] * 8)
        self.write("a.txt", "hello")
        self.pack("a.npy", "-o", "set", "--length", "4")
        self.pack("a.npy", "-o", "set", "--length", "4", "--split", "validation")
        _, err = self.dlflow("data", "pack", "a.txt", "-o", "set", "--split", "test", "--tokens", "bytes", status=2)
        self.assertIn("set/tokenizer.model already exists, of another split; pack tokens of it with --tokenizer set/tokenizer.model instead", err)
        (self.folder / "pieces.model").write_bytes(sentencepiece_model("cat"))
        _, err = self.pack("a.npy", "-o", "set", "--split", "test", status=2)
        self.assertIn("set/tokenizer.model is a different tokenizer than pieces.model", err)

    def test_mistakes_are_answered_with_the_accepted_values(self):
        self.array("a.npy", [self.THE, 260])
        self.array("ends.npy", [self.END, self.END])
        self.write("a.txt", "hello")
        self.write("tokenizer.json", "{}")
        (self.folder / "no-bytes.model").write_bytes(sentencepiece_model("the", num_bytes=0))
        for words, error in ((["a.npy"], "a.npy: number 1 is the token 260, but the tokenizer has 260"),
                             (["ends.npy"], "ends.npy: has no text"),
                             (["a.txt"], "a.txt: is not an .npy array; with --tokenizer the sources are tokens"),
                             (["a.npy", "--per", "line"], "--per line are for texts"),
                             (["a.npy", "--text", "note"], "--text, --class and --per line are for texts")):
            with self.subTest(words):
                self.assertIn(error, self.pack(*words, "-o", "set", status=2)[1])
        for file, error in (("tokenizer.json", "is JSON, as the package tokenizers writes, but dlflow reads models of SentencePiece"),
                            ("no-bytes.model", "has no token for each byte, so it would lose some texts; docs/user/data-format.md#text"),
                            ("a.txt", "a.txt: is not a tokenizer of SentencePiece")):
            with self.subTest(file):
                self.assertIn(error, self.dlflow("data", "pack", "a.npy", "-o", "set", "--tokenizer", file, status=2)[1])
        self.assertFalse((self.folder / "set").exists())

    @unittest.skipUnless(VENV.exists(), "there is no virtual environment of tests/python/make_venv")
    def test_the_python_lines_on_the_page_make_tokens_that_give_back_the_text_byte_by_byte(self):
        page = (PAGES / "data-format.md").read_text()
        program = next(block for block in page.split("```python\n")[1:] if "sentencepiece" in block).split("```")[0]
        texts = [file.read_text() for file in sorted(PAGES.glob("tutorial-*.md"))] + ["  two  spaces \t\n\n caf\u00e9 \u4f60\u597d \U0001F600"]
        (self.folder / "stories").mkdir()
        for number, text in enumerate(texts):
            (self.folder / f"stories/{number:02}.txt").write_text(text)
        self.write("make_tokens.py", program.replace("4096", "600"))
        subprocess.run([VENV, "make_tokens.py"], cwd=self.folder, check=True, stderr=subprocess.DEVNULL)
        self.dlflow("data", "pack", "tokens.npy", "-o", "set", "--tokenizer", "tokenizer.model", "--per", "document", "--length", "65536")
        shown = json.loads(self.dlflow("data", "show", "set", "--json")[0])[0]
        self.assertEqual((shown["samples"], shown["vocabulary"]), (len(texts), 600))
        self.assertEqual(shown["text_bytes"], sum(len(text.encode()) for text in texts))
        self.assertEqual(shown["first_sample"], texts[0] + "<|endoftext|>")


if __name__ == "__main__":
    main()
