"""Time ranges of programs: read, written for Perfetto, drawn; and those of a run that goes on, taken from it. See launch/guide/watching.md."""
