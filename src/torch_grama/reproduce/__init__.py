"""The experiments of the paper: suites, their runs, and those of the demo."""
