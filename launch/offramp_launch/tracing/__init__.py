"""Time ranges of programs: recorded from a live run, read, drawn, for Perfetto. See launch/guide/watching.md."""
