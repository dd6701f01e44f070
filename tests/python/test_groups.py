"""Groups of consumers of a loop in Python: each group gets every batch, an optional one holds nothing."""

import json

import offramp
from world import World, needs_numpy

# Prints each sample's item and first value as a line of JSON.
READER = """
    import json, sys, offramp       # its output fits into a pipe, so the test reads it after the run
    for slab in offramp.Consumer(sys.argv[1], group=sys.argv[2]):
        for sample, values in slab:
            print(json.dumps([sample.item, float(values[0])]), flush=True)
"""
FACTS = ("optional", "released_samples", "dropped_samples")
TENSORS = {"output": ("float32", (4, 5))}
BATCHES = 50
EVERY_SAMPLE = [[4 * batch + row, float(batch)] for batch in range(BATCHES) for row in range(4)]


@needs_numpy
class Grouped(World):
    def egress(self, *groups, **options):
        return offramp.Egress(self.run_dir, TENSORS, "cpu", groups=groups, slabs=4, samples_per_slab=4, **options)

    def submit_all(self, egress):
        import numpy

        for batch in range(BATCHES):
            egress.submit(numpy.full((4, 5), batch, "float32"))

    def group_in_status(self, name):
        groups = json.loads(self.text_of("status.json"))["groups"]
        return next(group for group in groups if group["name"] == name)

    def test_each_group_gets_every_sample_once(self):
        with self.egress("masks", "vectors") as egress:
            readers = [self.python(READER, self.run_dir, name) for name in ("masks", "masks", "vectors")]
            self.submit_all(egress)
        first, second, alone = ([json.loads(line) for line in self.end(each).splitlines()] for each in readers)
        self.assertEqual(EVERY_SAMPLE, sorted(first + second), "two consumers share their group's slabs")
        self.assertEqual(EVERY_SAMPLE, sorted(alone))
        self.assertEqual(len(EVERY_SAMPLE), egress.stats().samples_completed)

    def test_a_batch_waits_for_each_required_group(self):
        with self.egress("masks", "vectors") as egress:
            masks = self.python(READER, self.run_dir, "masks")
            import numpy

            egress.submit(numpy.zeros((4, 5), "float32"))
            for _ in range(4):
                self.read_line(masks)
            self.assertEqual(0, egress.stats().samples_completed)
            vectors = self.python(READER, self.run_dir, "vectors")
        self.end(masks)
        self.end(vectors)
        self.assertEqual(4, egress.stats().samples_completed)

    def test_an_optional_group_without_consumers_holds_nothing(self):
        with self.egress("masks", "preview,optional") as egress:
            reader = self.python(READER, self.run_dir, "masks")
            self.submit_all(egress)
        self.assertEqual(EVERY_SAMPLE, [json.loads(line) for line in self.end(reader).splitlines()])
        preview = self.group_in_status("preview")
        self.assertEqual((True, 0, len(EVERY_SAMPLE)), tuple(preview[name] for name in FACTS))
        self.assertEqual(0, self.group_in_status("masks")["dropped_samples"])

    def test_wrong_groups_are_refused(self):
        for groups, options, why in (
            (("Masks",), {}, "group 'Masks' has no valid name.*lower-case letters"),
            (("abcdefghijklmnopq",), {}, "no valid name.*1 to 16"),
            (("",), {}, "group '' has no valid name"),
            (("masks,needed",), {}, r"has 'needed' after a comma.*NAME\[,optional\]\[,drop-oldest\|spill\]"),
            (("masks,spill",), {}, "which only groups of 'offramp run' do"),
            (("masks", "masks"), {}, "group 'masks' is named twice"),
            (("masks,optional", "vectors,optional"), {}, "all groups are optional"),
            ([f"g{number}" for number in range(9)], {}, "9 groups. Name at most 8"),
            (("masks", "vectors"), {"when_full": "drop"}, "Omit when_full"),
            (("masks", "vectors"), {"when_full": "drop-oldest"}, "Omit when_full"),
        ):
            with self.subTest(groups, **options), self.assertRaisesRegex(offramp.BadArgument, why):
                self.egress(*groups, **options)
            self.assertFalse(self.run_dir.exists(), "nothing was made")

    def test_groups_are_names_in_a_sequence(self):
        for groups, why in (("masks", "groups is 'masks'. Give a list"), ([1], "a group is 1"), (3, "Give a list")):
            with self.subTest(groups), self.assertRaisesRegex(offramp.BadArgument, why):
                offramp.Egress(self.run_dir, groups=groups)

    def test_groups_do_not_go_with_a_processor(self):
        with self.assertRaisesRegex(offramp.BadArgument, "Omit groups, or give run_dir= alone"):
            offramp.Egress(output=self.folder / "out", processor="npy", groups=("masks", "vectors"))
        self.assertFalse((self.folder / "out").exists())

    def test_a_consumer_needs_the_name_of_a_group(self):
        with self.egress("masks"):
            for group, why in (
                ("typo", "no group 'typo'. Join one of its groups: masks"),
                ("", "has groups of consumers .masks.. Join one of them"),
                ("../masks", "'../masks' is not a group's name"),
            ):
                with self.subTest(group), self.assertRaisesRegex(offramp.BadArgument, why):
                    next(iter(offramp.Consumer(self.run_dir, group=group, wait_for_run=0.1)))
        with offramp.Egress(self.folder / "other", TENSORS, "cpu"):
            with self.assertRaisesRegex(offramp.BadArgument, "no group 'masks'. Join it without"):
                offramp.Consumer(self.folder / "other", group="masks", wait_for_run=0.1)
