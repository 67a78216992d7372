"""Reads result files and writes tables and pages; works where torch is not installed."""
