"""Sets up, builds, starts, watches, scales and stops Offramp's programs. See launch/README.md."""
