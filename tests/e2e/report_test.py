"""`dlflow report`: the page in a real browser, with keyboard and mouse, in the dark, on paper, and with 10,000 jobs."""

import json
import pathlib
import re
import time

import support
from browser import Browser, find

# A step with two elements, one that continues after a requeue, one that fails and is retried, and one that depends on it.
PIPELINE = """
    name: pictured
    params: {note: "</script><img src=x onerror=alert(1)>"}
    steps:
      data: {run: [sleep, '0.1']}
      train:
        matrix: {lr: [0.1, 0.5]}
        repeat: 3
        needs: [data]
        resources: {memory: 1GiB, walltime: 1h}
        run: |
          for step in 1 2 3 4; do
            echo "{\\"step\\": $step, \\"steps\\": 4, \\"epochs\\": 2, \\"epoch\\": 1, \\"at\\": $(date +%s.%N), \\"loss\\": 0.$((9 - step))}" >> $DLFLOW_METRICS
          done
          echo "{\\"accuracy\\": 0.9$DLFLOW_SEED}" > $DLFLOW_SUMMARY
      long:
        checkpoint: {every: 1 epoch}
        run: |
          if [ -e $DLFLOW_CHECKPOINTS/step-000001 ]; then echo '{"step": 2, "loss": 1}' >> $DLFLOW_METRICS; exit 0; fi
          echo '{"step": 1, "loss": 2}' >> $DLFLOW_METRICS
          echo saved > $DLFLOW_CHECKPOINTS/step-000001; exit 75
      bad: {run: 'echo "error: </script><script>document.title = 1</script> is missing" >&2; exit 3', retry: {attempts: 2, on: [failure]}}
      after: {run: ['true'], needs: [bad]}
"""

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGOoBwAAgQCA05RTSgAAAABJRU5ErkJggg=="  # a PNG file of one grey pixel


class Report(support.Case):
    shared_page = None

    def report(self, *runs):
        page = self.folder / "report.html"
        out, _ = self.dlflow("report", *runs, "-o", page)
        self.assertIn("needs no network", out)
        return page

    def pictured(self):
        self.write("w.yaml", PIPELINE)
        return self.run_json("w.yaml", "--keep-going", status=1)["run"]

    def page(self):
        """Of one run of the pipeline, which all tests share that change nothing of it."""
        if Report.shared_page is None:
            Report.shared_page = self.report(self.pictured()).read_bytes()
        page = self.folder / "report.html"
        page.write_bytes(Report.shared_page)
        return page

    def opened(self, page, width=1280):
        if not find():
            self.skipTest("there is no Chromium (Debian's package chromium)")
        browser = Browser(seconds=120)
        self.addCleanup(browser.close)
        self.addCleanup(lambda: self.assertEqual(browser.complaints, []))
        browser.media()
        browser.resize(width, 900)
        browser.opened_in = browser.open(page)
        return browser

    def test_the_page_shows_the_events_of_the_run(self):
        run = self.pictured()
        data = json.loads(self.dlflow("report", run, "--json")[0])
        jobs = {job["name"]: job for job in data["runs"][0]["jobs"]}
        passes = [(span[1], span[2], span[5]) for span in jobs["long"]["spans"] if span[0] == 1]
        self.assertEqual(passes, [(1, 1, "queued"), (1, 2, "succeeded")])
        self.assertEqual([span[1] for span in jobs["bad"]["spans"] if span[0] == 1][-1], 2)
        loss = next(curve for curve in jobs["train[lr=0.1,repeat=1]"]["curves"] if curve["name"] == "loss")
        self.assertEqual((loss["value"], loss["epoch"]), ([0.8, 0.7, 0.6, 0.5], [0.5, 1, 1.5, 2]))
        steps = data["runs"][0]["steps"]
        self.assertEqual([steps[parent]["name"] for parent, _ in steps[1]["needs"]], ["data"])
        compared = {group["job"]: group["metrics"] for group in data["comparison"]}
        self.assertEqual(compared["train[lr=0.1]"]["accuracy"]["n"], 3)
        self.assertAlmostEqual(compared["train[lr=0.1]"]["accuracy"]["mean"], 0.92)
        self.assertEqual(data["runs"][0]["provenance"]["scheduler"], "local")
        self.assertNotIn(str(self.folder), json.dumps({key: data["runs"][0][key] for key in ("provenance", "steps")}))

    def test_the_page_is_complete_without_a_browser(self):
        text = self.page().read_text()
        self.assertLess(len(text), 400_000)
        self.assertNotIn("<img", text)
        self.assertNotIn("https://", re.sub(r"https://(www\.chartjs\.org|www\.w3\.org|github\.com)\S*", "", text.replace("www.debian.org", "www.w3.org")))

    def test_pictures_among_the_outputs_of_jobs_are_on_the_page(self):
        self.write("w.yaml", f"""
            name: w
            steps:
              draw:
                run: 'echo {PICTURE} | base64 -d > plot.png; head -c 9000000 /dev/zero > large.png; cp plot.png table.csv'
                outputs: {{plot: plot.png, large: large.png, table: table.csv}}
        """)
        run = self.run_json("w.yaml")["run"]
        job, = json.loads(self.dlflow("report", run, "--json")[0])["runs"][0]["jobs"]
        self.assertEqual(job["pictures"], [{"name": "plot", "src": f"data:image/png;base64,{PICTURE}"}])
        browser = self.opened(self.report(run))
        self.assertEqual(browser.run("[...document.querySelectorAll('#pictures img')].map((image) => [image.alt, image.naturalWidth])"), [["plot of draw", 1]])

    def test_text_of_a_run_is_never_markup(self):
        browser = self.opened(self.page())
        self.assertRegex(browser.run("document.title"), "^pictured-[0-9a-f]{8}: report of dlflow$")
        self.assertEqual(browser.run("document.querySelectorAll('img, main script').length"), 0)
        self.assertIn("</script><img src=x onerror=alert(1)>", browser.run("document.getElementById('provenance').textContent"))
        self.assertIn("<script>document.title = 1</script> is missing", browser.run("document.getElementById('attempts').textContent"))

    def test_a_reused_job_is_not_an_attempt_and_metrics_come_in_the_order_of_interest(self):
        summary = '{"communication_wait_s": 3, "loss": 0.5, "accuracy": 0.9}'
        self.write("w.yaml", f"name: w\nsteps: {{a: {{run: 'echo ''{summary}'' > $DLFLOW_SUMMARY'}}}}\n")
        self.run_json("w.yaml")
        browser = self.opened(self.report(self.run_json("w.yaml")["run"]))
        tiles = browser.run("[...document.querySelectorAll('#tiles div')].map((tile) => tile.textContent).join(', ')")
        self.assertIn("1reused, 0requeues, 0further attempts", tiles)
        names = browser.run("[...document.querySelectorAll('#compared option')].map((option) => option.value).join(', ')")
        self.assertEqual(names, "accuracy, loss, communication_wait_s")

    def test_jobs_are_found_by_filter_states_and_steps(self):
        browser = self.opened(self.page())
        shown = "document.getElementById('shown').textContent"
        self.assertEqual(browser.run(shown), "10 jobs")
        browser.click("#filter")
        browser.type("lr=0.5 repeat=2")
        self.assertEqual(browser.run(shown), "1 of 10 jobs")
        browser.run("document.getElementById('filter').select()")
        browser.type("is missing")  # the cause of the failure
        self.assertEqual(browser.run("view.jobs.map((job) => job.name)"), ["bad"])
        browser.run("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))")
        browser.click("#states [data-state=succeeded]")
        self.assertEqual(browser.run("view.jobs.map((job) => job.state).sort()"), ["blocked", "failed"])
        browser.click("#states [data-state=succeeded]")
        browser.click("#dag .node:nth-of-type(2)")
        self.assertEqual(browser.run(shown), "6 of 10 jobs")
        browser.press("Enter")  # the focused step shows all jobs again
        self.assertEqual(browser.run(shown), "10 jobs")

    def test_a_job_is_selected_and_the_time_zoomed_by_keyboard_and_mouse(self):
        browser = self.opened(self.page())
        whole = browser.run("[view.from, view.to]")
        browser.run("document.getElementById('gantt').focus()")
        browser.press("ArrowDown", "ArrowDown")
        self.assertEqual(browser.run("document.querySelector('#details h3').textContent"), "train[lr=0.1,repeat=1]")
        self.assertIn("train[lr=0.1,repeat=1], succeeded", browser.run("document.getElementById('gantt-current').textContent"))
        self.assertEqual(browser.run("document.getElementById('gantt').getAttribute('aria-activedescendant')"), "gantt-current")
        browser.press("End", "ArrowUp")
        self.assertIn("exit 3", browser.run("document.getElementById('details').textContent"))
        browser.press("+")
        self.assertAlmostEqual(browser.run("view.to - view.from") * 2, whole[1] - whole[0], places=3)
        browser.press("0")
        self.assertEqual(browser.run("[view.from, view.to]"), whole)
        x, y, width, _ = browser.place("#overview")
        browser.mouse(x, y, to=(x + width / 4, y))
        zoomed = browser.run("[view.from, view.to]")
        self.assertTrue(whole[0] < zoomed[0] < zoomed[1] < whole[1], zoomed)
        browser.press("Escape")
        self.assertIn("Select a job", browser.run("document.getElementById('details').textContent"))
        browser.mouse(*browser.run("(() => { const r = document.querySelector('#gantt-rows').getBoundingClientRect(); return [r.x + 90, r.y + 10]; })()"))
        self.assertEqual(browser.run("view.job.name"), "data")
        browser.press("Tab")  # Tab leaves the list
        self.assertNotEqual(browser.run("document.activeElement.id"), "gantt")

    def test_curves_continue_over_requeues_and_the_selection_stands_out(self):
        browser = self.opened(self.page())
        self.assertEqual(browser.run("document.getElementById('curve-metric').value"), "loss")
        self.assertEqual(browser.run("chart.data.datasets.length"), 7)
        browser.run("view.select(view.run.jobs.find((job) => job.name === 'long'))")
        widths = dict(browser.run("chart.data.datasets.map((line) => [line.label, line.borderWidth])"))
        self.assertEqual((widths.pop("long"), max(widths.values())), (3, 0.8))
        browser.run("document.getElementById('curve-x').value = 'time'; document.getElementById('curve-x').onchange()")
        self.assertEqual(len(browser.run("chart.options.marks")), 1)  # the point where it continued
        self.assertIn("last values", browser.run("document.getElementById('curve').getAttribute('aria-label')"))

    def test_the_page_is_readable_in_the_dark_and_on_paper(self):
        browser = self.opened(self.page())
        background = "getComputedStyle(document.body).backgroundColor"
        light = browser.run(background)
        pixel = "(() => { const c = document.querySelector('#gantt-rows canvas'); return [...c.getContext('2d').getImageData(24, 4, 160, 12).data].join(); })()"
        in_light = browser.run(pixel)
        browser.media(dark=True)
        browser.run("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        self.assertNotEqual(browser.run(background), light)
        self.assertNotEqual(browser.run(pixel), in_light)  # also the canvases
        browser.click("#theme")  # light, independent of the system's setting
        self.assertEqual(browser.run(background), light)
        browser.media("print", dark=True)
        self.assertEqual(browser.run("getComputedStyle(document.querySelector('nav')).display"), "none")
        self.assertEqual(browser.run(background), "rgb(255, 255, 255)")
        pdf = browser.pdf()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertLess(len(re.findall(rb"/Type\s*/Page[^s]", pdf)), 8)

    def test_nothing_is_wider_than_a_small_screen(self):
        browser = self.opened(self.page())
        browser.resize(420, 800)
        browser.run("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), 420)

    def test_on_a_small_screen_tables_and_legends_fold(self):
        browser = self.opened(self.page(), width=400)
        row = "document.querySelector('#usage tbody tr')"
        self.assertEqual(browser.run(f"getComputedStyle({row}).display"), "block")
        self.assertEqual(browser.run(f"[...{row}.cells].map((cell) => cell.dataset.name).slice(0, 3)"), ["Job", "Cores", "Cores used"])
        self.assertEqual(browser.run("[...document.querySelectorAll('.table')].filter((table) => table.scrollWidth > table.clientWidth).length"), 0)
        self.assertEqual(browser.run("document.getElementById('curve-key').open"), False)

    def test_a_table_has_no_empty_columns(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: ['true']}}\n")
        browser = self.opened(self.report(self.run_json("w.yaml")["run"]))
        self.assertEqual(browser.run("[...document.querySelectorAll('#usage th')].map((heading) => heading.textContent)"),
                         ["Job", "Cores", "Cores used", "Memory used", "Time used"])

    def test_every_attempt_is_listed_and_a_lost_pass_has_a_colour_of_its_own(self):
        browser = self.opened(self.page())
        rows = browser.run("[...document.querySelectorAll('#attempts tbody tr')].map((row) => [...row.cells].slice(0, 4).map((cell) => cell.textContent))")
        self.assertIn(["long", "1", "1", "↻ requeued"], rows)
        self.assertIn(["long", "1", "2", "✔ succeeded"], rows)
        self.assertEqual([row[1] for row in rows if row[0] == "bad"], ["1", "2"])
        colors = browser.run("['running', 'wrong', 'lost'].map(color)")
        self.assertEqual(len(set(colors)), 3)
        self.assertEqual(browser.run("view.run.jobs.filter((job) => job.spans.some(isLost)).map((job) => job.name)"), ["long"])

    def test_idle_time_is_folded_and_not_counted_as_work(self):
        self.write("w.yaml", f"name: w\ntrack: {{openmetrics: {self.folder}/w.prom}}\nsteps: {{a: {{run: '[ $DLFLOW_ATTEMPT -gt 1 ]'}}}}\n")
        run = self.run_json("w.yaml", status=1)["run"]
        time.sleep(6)
        out, _ = self.dlflow("resubmit", run)
        self.assertRegex(out, "succeeded in 0:0[0-5]")
        self.assertGreaterEqual(self.status(run)["idle_s"], 5.5)
        self.assertLess(float(re.search(r"dlflow_run_seconds\{.*\} (\S+)", (self.folder / "w.prom").read_text())[1]), 5.5)
        browser = self.opened(self.report(run))
        self.assertEqual(browser.run("view.run.folds.length"), 1)
        self.assertGreaterEqual(browser.run("view.run.idle"), 5.5)
        self.assertLess(browser.run("view.run.length"), 6)
        self.assertGreaterEqual(browser.run("realTime(view.run.length)"), 6)
        worked = re.search("worked (.*), idle", browser.run("document.getElementById('run-facts').textContent"))
        self.assertIn(f"succeeded in {worked[1]}", out)

    def test_the_comparison_has_the_best_first_an_axis_and_values_against_parameters(self):
        self.write("w.yaml", """
            name: w
            steps:
              fit:
                matrix: {lr: [1, 4, 2], width: [8, 16]}
                run: 'echo "{\\"score\\": 0.$DLFLOW_MATRIX_LR$DLFLOW_MATRIX_WIDTH, \\"accuracy\\": 0.5}" > $DLFLOW_SUMMARY'
              best: {run: [echo, "${{ max_by(steps.fit.matrix.lr, steps.fit.metrics.score) }}"]}
        """)
        browser = self.opened(self.report(self.run_json("w.yaml")["run"]))
        self.assertEqual(browser.run("[...document.querySelectorAll('#comparison thead th')].map((heading) => heading.textContent)"),
                         ["Job", "score", "0.11600.29800.4800"])
        self.assertEqual(browser.run("document.querySelector('#comparison tbody td').textContent"), "fit[lr=4,width=8]")
        self.assertEqual(browser.run("[sweepChart.options.scales.x.title.text, sweepChart.options.scales.y.title.text]"), ["lr", "score"])
        self.assertEqual(browser.run("sweepChart.data.datasets.map((points) => [points.label, points.data.length])"), [["width = 8", 3], ["width = 16", 3]])

    def test_two_runs_are_compared(self):
        first, second = self.pictured(), self.run_json("w.yaml", "--no-cache", "--keep-going", status=1)["run"]
        browser = self.opened(self.report(first, second))
        cells = browser.run("[...document.querySelectorAll('#comparison tbody tr')].map((row) => [...row.cells].slice(0, 4).map((cell) => cell.textContent))")
        self.assertEqual(cells, [[run, f"train[lr={lr}]", "3", "0.9200"] for run in (first, second) for lr in ("0.1", "0.5")])
        browser.run("document.getElementById('run-select').value = '1'; document.getElementById('run-select').onchange({target: document.getElementById('run-select')})")
        self.assertIn(second, browser.run("document.getElementById('run-name').textContent"))

    def test_a_table_reads_each_of_its_rows_only_a_few_times(self):
        browser = self.opened(self.page())
        browser.run("""(() => {
            window.looks = 0;
            fill("usage", [column("Number", (row) => String(row), (row) => { window.looks += 1; return row; })], [...Array(1000).keys()]);
            document.querySelector("#usage .more").click();
        })()""")
        self.assertEqual(browser.run("document.querySelectorAll('#usage tbody tr').length"), 1000)
        self.assertLessEqual(browser.run("looks"), 3000)

    def multiplied(self, page, times):
        """The page with each job `times` times, all curves together with as many points as before: what a larger run has."""
        head, mark, rest = page.read_text().partition('<script type="application/json" id="data">')
        content, end, tail = rest.partition("</script>")
        data = json.loads(content)
        (run,) = data["runs"]
        for job in run["jobs"]:
            for curve in job["curves"]:
                curve.update({key: points[:len(points) // times] for key, points in curve.items() if isinstance(points, list) and points})
        run["jobs"] = [{**run["jobs"][i % len(run["jobs"])], "name": f"fit[i={i}]"} for i in range(len(run["jobs"]) * times)]
        page.write_text(head + mark + json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c") + end + tail)

    def test_ten_thousand_jobs_with_curves_are_a_page_below_15_mb(self):
        # Only 250 jobs run: ten thousand would take a minute, and another minute to remove their folders.
        self.write("w.yaml", "name: many\nsteps: {fit: {matrix: {i: [%s]}, run: ['true']}}\n" % ", ".join(map(str, range(250))))
        run = self.run_json("w.yaml")["run"]
        lines = "".join(json.dumps({"step": step, "steps": 400, "epochs": 4, "epoch": step // 100, "at": 1.8e9 + step, "loss": 1 / (1 + step),
                                    "images_per_s": 3000 + step}) + "\n" for step in range(400))
        for folder in pathlib.Path(self.status(run)["directory"]).glob("steps/fit/*/attempt-1"):
            (folder / "metrics.jsonl").write_text(lines)
        page = self.report(run)
        self.multiplied(page, 40)
        size = page.stat().st_size
        self.assertLess(size, 15 << 20)
        browser = self.opened(page)
        print(f"10,000 jobs: {size / (1 << 20):.1f} MiB, opened in {browser.opened_in:.2f} s")
        self.assertEqual(browser.run("document.getElementById('shown').textContent"), "10,000 jobs")
        browser.click("#filter")
        browser.type("i=77")
        self.assertEqual(browser.run("view.jobs.length"), 111)
        browser.run("document.getElementById('gantt').focus()")
        browser.press("End")
        self.assertEqual(browser.run("view.job.name"), "fit[i=7799]")


if __name__ == "__main__":
    support.main()
