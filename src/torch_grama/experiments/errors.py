"""What this room raises: one sentence that says what is wrong and how to put it right."""


class ConfigError(ValueError):
    r"""A configuration names something that does not exist, or gives a value that cannot be."""
