"""
Time ranges of programs: recorded from a live run, read, written for Perfetto, drawn. See launch/guide/watching.md.
"""
