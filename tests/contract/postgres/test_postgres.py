"""
The contract of processors that write to PostgreSQL, with a real server. OFFRAMP_TEST_ONE_IN: the distance between two
steps at which it kills.
"""

import os
import pathlib
import subprocess
import unittest

from tests.support.postgres_server import PostgresServer, missing_requirement


@unittest.skipIf(missing_requirement(), missing_requirement())
class Contract(unittest.TestCase):
    def test_every_case_of_the_contract_holds_in_a_postgresql(self):
        program = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"], "tests/contract_processors")
        with PostgresServer() as server:
            done = subprocess.run(
                [program, "--gtest_filter=*_postgres:*Postgres.*"],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "OFFRAMP_TEST_POSTGRES": server.uri()},
                stdin=subprocess.DEVNULL,
            )
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-3000:])
        self.assertNotIn("names no server", done.stdout)
        self.assertIn("[  PASSED  ]", done.stdout)
