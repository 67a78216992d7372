"""A data set out of graphs that a test writes out."""

from torch_grama.datasets import FeatureEncoding, GraphTaskData, Metric


def made_task(*graphs, **changes):
    """Two classes of nodes with two features, unless the changes say otherwise."""
    facts = {
        "name": "made/up",
        "graphs": list(graphs),
        "folds": [],
        "level": "node",
        "kind": "classification",
        "metric": Metric("accuracy", True),
        "num_outputs": 2,
        "node_encoding": FeatureEncoding("float", 2),
    }
    return GraphTaskData(**{**facts, **changes})
