"""The program behind scripts/test.sh: runs the suites of suites.def and counts single tests."""
