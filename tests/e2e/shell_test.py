"""`dlflow shell`: a shell in the environment of a step's program, on a terminal and through a pipe."""

import os
import pty
import select
import subprocess
import termios
import time

from support import BIN, Case, main


class Shell(Case):
    def setUp(self):
        super().setUp()
        self.write("given.txt", "given\n")
        self.write_steps("""
            a: {run: "echo of-a > o.txt", outputs: {o: o.txt}}
            b:
              matrix: {x: [1, 2]}
              secrets: [TOKEN]
              inputs: [given.txt]
              env: {GREETING: "hello ${{ matrix.x }}", FROM: "${{ steps.a.outputs.o }}"}
              run: exit 3
            c: {needs: b, run: "true"}
            words: {run: [python3, -c, "print(1)", 0.3, "${{ params.list }}"], allow_failure: true}
        """, "params: {list: [1, 2]}")
        self.name = self.run_json("w.yaml", status=1, env={"TOKEN": "geheim"})["run"]

    def files(self):
        return sorted(str(path) for path in (self.folder / "dlflow-runs" / self.name / "steps").rglob("*"))

    def shell(self, job, text, status=0):
        done = subprocess.run([BIN / "dlflow", "shell", self.name, job], input=text, cwd=self.folder, env=self.env, text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout.splitlines(), done.stderr

    def test_a_shell_has_the_programs_environment_and_leaves_nothing(self):
        before = self.files()
        out, err = self.shell("b[x=2]", 'echo "$GREETING, $TOKEN"\ncat "$FROM" given.txt\necho more > "$DLFLOW_OUTPUTS/o.txt"\npwd; ls\nexit 7\n', status=7)
        self.assertEqual(out[:3], ["hello 2, geheim", "of-a", "given"])
        self.assertRegex(out[3], r"/steps/b/x=2/shell\.\w+/pass-1/work$")
        self.assertEqual(out[4:], ["given.txt"])
        self.assertRegex(err, "the environment of b.x=2.; its folder is removed at the end\nits command: exit 3\n")
        self.assertEqual(self.files(), before)

    def test_numbers_and_lists_among_the_words_of_a_command_are_shown_as_arguments(self):
        self.assertIn("its command: python3 -c 'print(1)' 0.3 1 2\n", self.shell("words", "")[1])

    def test_a_long_text_passes_through_a_shell(self):
        out, _ = self.shell("b", "".join(f"echo {number}\n" for number in range(20000)))
        self.assertEqual(out, [str(number) for number in range(20000)])

    def test_a_shell_on_a_terminal_has_job_control(self):
        user, terminal = pty.openpty()
        settings = termios.tcgetattr(user)
        process = subprocess.Popen([BIN / "dlflow", "shell", "--quiet", self.name, "b"], cwd=self.folder, env=self.env | {"TERM": "dumb", "PS1": "> "},
                                   stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
        os.close(terminal)
        self.addCleanup(process.kill)
        seen = b""

        def read_until(word):
            nonlocal seen
            deadline = time.monotonic() + 30
            while word not in seen:
                self.assertLess(time.monotonic(), deadline, seen)
                if select.select([user], [], [], 0.1)[0]:
                    try:
                        seen += os.read(user, 4096)
                    except OSError:
                        self.fail(f"it ended after {seen!r}")
        os.write(user, b"test -t 0 && test -t 1 && echo on a terminal: $((6 * 7))\n")
        read_until(b"on a terminal: 42")
        os.write(user, b"sleep 1000\n")
        read_until(b"sleep 1000")
        time.sleep(0.2)  # the program has begun; otherwise the shell harmlessly gets the next key
        os.write(user, b"\x03")
        os.write(user, b"echo still here: $((6 * 8))\n")
        read_until(b"still here: 48")
        os.write(user, b"exit 5\n")
        self.assertEqual(process.wait(timeout=30), 5)
        self.assertEqual(termios.tcgetattr(user), settings)  # line editing and echo are restored
        os.close(user)

    def test_a_shell_ends_when_its_dlflow_is_killed(self):
        process = subprocess.Popen([BIN / "dlflow", "shell", self.name, "b"], cwd=self.folder, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        process.stdin.write(b"echo $$\n")
        process.stdin.flush()
        shell = int(process.stdout.readline())
        process.kill()
        process.communicate()
        self.wait_for(lambda: not os.path.exists(f"/proc/{shell}"), what=f"process {shell} to end")

    def test_a_step_that_cannot_be_entered_is_refused_with_the_reason(self):
        _, err = self.shell("c", "", status=2)
        self.assertIn("error: c has not been started yet, so nothing of it is prepared: it is blocked", err)
        _, err = self.shell("d", "", status=2)
        self.assertIn(f"error: {self.name} has no step or job 'd'", err)


if __name__ == "__main__":
    main()
