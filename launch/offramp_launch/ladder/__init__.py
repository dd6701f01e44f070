"""
The command `ladder`: measures, compares and draws the article's rungs on this machine. See launch/guide/performance.md.
"""
