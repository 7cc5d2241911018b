"""The base of the adapters of batch_system_test.py."""

from chains import Chain


class Adapted(Chain):
    """Settings that an adapter of a batch system may override, besides where its chains run."""

    most_counted = 100  # that a step may count until its cancellation arrives
    never_begun = "cancelled"  # the state of what waited when its run was cancelled
    without_meaning = {}  # part of a scenario's name -> why it is none for this system

    def setUp(self):
        for name, reason in self.without_meaning.items():
            if name in self._testMethodName:
                self.skipTest(f"for this back end it has no meaning: {reason}")
        super().setUp()

    def end_by_hand(self, id):
        """Ends a job beside dlflow."""
        raise NotImplementedError

    def hold(self, id):
        self.skipTest("this batch system holds no jobs")

    def refused_profile(self):
        """A profile whose jobs are refused in words that match `refusal`."""
        self.skipTest("this batch system refuses no job")

    # Hooks for what only one batch system shows.

    def forget_what_has_ended(self):
        pass

    def until_nothing_is_left(self):
        pass

    def until_the_blocked_have_ended(self):
        pass

    def check_arrays(self, ids, *steps):
        """Each of `steps` is one array, whose tasks are numbered from 0 on."""
        for step in steps:
            tasks = [id.split("_") for job, id in ids.items() if job.startswith(f"{step}[")]
            self.assertEqual({number for _, number in tasks}, {str(n) for n in range(len(tasks))})
            self.assertEqual(len({array for array, _ in tasks}), 1)

    def check_same_jobs(self, before, after):
        self.assertEqual(after, before)

    def check_requeued(self, job):
        pass

    def submissions(self):
        """(name, number) of each submission that the batch system still has."""
        raise NotImplementedError

    def check_submitted_once(self, run):
        names = [name for name, _ in self.submissions() if name.startswith(run)]
        self.assertEqual(sorted(name.split(".")[2] for name in names), ["a", "b", "c"], names)

    def check_ended_by_hand(self, run):
        pass

    def check_new_jobs(self, jobs):
        """`jobs` were submitted again when a chain was repaired in which one element had failed."""
