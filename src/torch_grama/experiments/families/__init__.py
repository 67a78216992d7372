"""Model words, one file a family of models."""
