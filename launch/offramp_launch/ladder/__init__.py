"""The command `ladder`: the article's rungs on this machine, measured, compared, and drawn. See launch/guide/performance.md."""
