"""The answers to 200 mistakes: the place, the cause, and a correction. Each text is compared word by word."""

import re
import shutil

from mistakes_in_files import IN_FILES
from mistakes_in_use import IN_USE
from support import Case, main

MISTAKES = IN_FILES + IN_USE

# Words of a library or of this program's internals.
INTERNALS = re.compile(r"std::|CLI::|json\.exception|type_error|yaml-cpp|bad_|terminate|0x[0-9a-f]{6}|REQUIRED|->\d|FAILED|not expected")


class Mistakes(Case):
    def message(self, mistake):
        """What dlflow prints of a mistake: standard error, and of a run that failed also its last words."""
        for name, text in mistake.files.items():
            self.write(name, "").write_bytes(text if isinstance(text, bytes) else text.encode())
        for argv in mistake.before:
            self.dlflow(*argv)
        process = self.start(*mistake.argv)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, mistake.status, f"{mistake.name}\n{out}\n{err}")
        text = err if mistake.status == 2 else out + err
        for entry in list(self.folder.iterdir()):
            if entry.name != "home":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        return re.sub(r"-[0-9a-f]{8}\b", "-RUN", text.replace(str(self.folder), "FOLDER"))

    def test_the_table_has_two_hundred_mistakes(self):
        self.assertGreaterEqual(len(MISTAKES), 200)
        self.assertEqual(len({m.name for m in MISTAKES}), len(MISTAKES))

    def test_each_mistake_is_reported_with_place_cause_and_command(self):
        grades = []
        for mistake in MISTAKES:
            with self.subTest(mistake.name):
                text = self.message(mistake)
                for what, wanted in (("place", mistake.place), ("cause", mistake.cause), ("what to type", mistake.cure)):
                    found = wanted in text
                    grades.append(found)
                    self.assertTrue(found, f"{mistake.name}: no {what} {wanted!r} in:\n{text}")
                self.assertNotRegex(text, INTERNALS)
        self.assertEqual(sum(grades), 3 * len(MISTAKES))


if __name__ == "__main__":
    main()
