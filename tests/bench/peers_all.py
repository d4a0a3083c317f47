"""bench/peers/: every rival is built and proved, in build/peers, where the lab looks for them.

What the network does not give or nobody installed is no failure, as long as one rival is there;
what does not build or is refused is. Takes two minutes on two cores the first time.
"""

import json
import subprocess
import sys
import unittest

import common

PEERS = common.BENCH / "peers"
sys.path.insert(0, str(PEERS))
import recipes


class All(unittest.TestCase):
    def test_all_are_built_and_proved(self):
        done = subprocess.run(
            [sys.executable, "-B", PEERS / "build.py"], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = json.loads((common.ROOT / "build/peers/peers.json").read_text())
        names = {entry["name"] for part in listed.values() for entry in part}
        self.assertEqual(names, set(recipes.NAMES))
        for entry in listed["absent"]:
            self.assertIn(f"build.py: {entry['name']} is absent: {entry['why']}\n", done.stderr)
            self.assertRegex(entry["why"], r"\Ano source: |is not installed", entry["name"])


if __name__ == "__main__":
    common.run_tests(__name__)
