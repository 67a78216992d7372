"""One configuration into one run folder; the only room that knows models and data sets by name."""
