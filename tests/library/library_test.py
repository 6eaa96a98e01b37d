#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""triax as a library: what `cmake --install` gives, and a program outside the
tree that uses it.

usage: library_test.py CMAKE BUILD_DIR   (the build must be complete)
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

CMAKE = sys.argv.pop(1)
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = BUILD / "tests/library"
PREFIX = WORK / "prefix"
# Outside the tree, as a user's program is: nothing but the prefix is found.
PROGRAM = WORK / "program"


def run(*command, code=0):
    """What a command printed; its exit code must be `code`."""
    done = subprocess.run([str(word) for word in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          cwd=WORK, timeout=600)
    if done.returncode != code:
        raise AssertionError(f"{command} ended with {done.returncode}:\n"
                             f"{done.stdout}")
    return done.stdout


def setUpModule():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    run(CMAKE, "--install", BUILD, "--prefix", PREFIX)
    shutil.copytree(SOURCE / "examples/library", PROGRAM)
    launcher = shutil.which("ccache")
    options = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"] if launcher else []
    run(CMAKE, "-S", PROGRAM, "-B", WORK / "build",
        f"-DCMAKE_PREFIX_PATH={PREFIX}", *options)
    run(CMAKE, "--build", WORK / "build", "--parallel", "2")


class Installed(unittest.TestCase):
    def test_every_include_is_there(self):
        headers = list((PREFIX / "include/triax").rglob("*.h"))
        self.assertGreater(len(headers), 50)
        for header in headers:
            for name in re.findall(r'^#include "(triax/[^"]+)"',
                                   header.read_text(), re.MULTILINE):
                self.assertTrue((PREFIX / "include" / name).exists(),
                                f"{header.name} includes {name}")

    def test_the_programs_find_each_other_and_libtorch(self):
        shown = run(PREFIX / "bin/triax", "train", SOURCE / "tests/parity/walk.toml",
                    f"data.path={SOURCE}/tests/parity/walk",
                    "training.steps=1", "run.dir=run")
        self.assertIn("step 1/1", shown)

    def test_no_debug_information_is_installed(self):
        files = [*(PREFIX / "lib").glob("*.a"), PREFIX / "bin/triax",
                 PREFIX / "libexec/triax-run"]
        self.assertGreater(len(files), 15)
        for path in files:
            self.assertNotIn(b".debug_info", path.read_bytes(), path)

    def test_nothing_of_the_build_folder_is_needed(self):
        for path in PREFIX.rglob("*.cmake"):
            self.assertNotIn(str(BUILD), path.read_text().replace(
                str(PREFIX), ""), path)


class DataParallel(unittest.TestCase):
    def losses(self, ranks):
        shown = run(WORK / "build/data_parallel", ranks)
        self.assertIn(f"{ranks} ranks said hello\n", shown)
        self.assertIn("the weights of all ranks are equal\n", shown)
        return [float(loss) for loss in re.findall(r"loss ([0-9.]+)", shown)]

    def test_ranks_train_what_one_rank_trains(self):
        one = self.losses(1)
        self.assertEqual(len(one), 5)
        self.assertLess(one[-1], one[0] / 4)
        for ranks in (2, 3):
            for a, b in zip(one, self.losses(ranks)):
                self.assertAlmostEqual(a, b, delta=2e-2 * a)


class FullySharded(unittest.TestCase):
    def test_two_units_are_gathered_at_most(self):
        for ranks in (2, 3):
            shown = run(WORK / "build/fully_sharded", ranks)
            units, two_largest, gathered, shards = (
                int(number) for number in re.search(
                    r"(\d+) units; the two largest take (\d+) bytes; at most "
                    r"(\d+) bytes were gathered, beside (\d+) bytes of shards",
                    shown).groups())
            self.assertGreaterEqual(units, 6)
            self.assertLessEqual(gathered, two_largest)
            self.assertGreater(gathered, two_largest / 2)
            self.assertIn("the weights and those of plain replicas are equal",
                          shown)


if __name__ == "__main__":
    unittest.main()
