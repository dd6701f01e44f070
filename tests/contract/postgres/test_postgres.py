"""The contract of processors that write to PostgreSQL, with a real server."""

import os
import pathlib
import subprocess
import unittest

from tests.support.postgres_server import PostgresServer, missing_requirement
from tests.support.turn import ONE_IN_FROM, TURN, TURN_FROM, describe_share


# The share of kill points to run, another one each day: each needs a connection and tables.
ONE_IN = 3


class OverAServer:
    def check(self, one_in):
        program = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"], "tests/contract_processors")
        print(f"\nkilled: {describe_share(TURN, one_in)}", flush=True)
        with PostgresServer() as server:
            done = subprocess.run(
                [program, "--gtest_filter=*_postgres:*Postgres.*"],
                capture_output=True,
                text=True,
                check=False,
                env={
                    **os.environ,
                    "OFFRAMP_TEST_POSTGRES": server.uri(),
                    TURN_FROM: str(TURN),
                    ONE_IN_FROM: str(one_in),
                },
                stdin=subprocess.DEVNULL,
            )
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-3000:])
        self.assertNotIn("names no server", done.stdout)
        self.assertIn("[  PASSED  ]", done.stdout)


@unittest.skipIf(missing_requirement(), missing_requirement())
class Contract(OverAServer, unittest.TestCase):
    def test_every_case_of_the_contract_holds_in_a_postgresql(self):
        self.check(ONE_IN)


@unittest.skipIf(missing_requirement(), missing_requirement())
class ContractWhole(OverAServer, unittest.TestCase):
    def test_every_case_with_all_of_its_kill_points_holds_in_a_postgresql(self):
        self.check(1)


if __name__ == "__main__":
    unittest.main()
