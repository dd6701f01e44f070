"""The command `ladder`: measures, compares and draws the article's rungs. See launch/guide/performance.md."""
