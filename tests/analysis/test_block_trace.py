import pytest
import torch
from analysis_graphs import Stage, grama, grama_for_graphs, graph
from torch import nn
from torch_geometric.nn import GATv2Conv

from torch_grama.analysis.block_trace import encode_input, find_grama, trace_blocks
from torch_grama.analysis.model_input import ModelInput, evaluation_mode, read_input
from torch_grama.nn import GRAMA, CategoricalEncoder, functional

kinds = {
    "gcn": {},
    "deep": {"seq_len": 8, "num_blocks": 1},
    "gatedgcn": {"backbone": "gatedgcn"},
    "gps": {"backbone": "gps"},
    "module": {"backbone": GATv2Conv(4, 4)},
    "batch_norm": {"norm": "batch_norm", "dropout": 0.5},
    "step": {"coefficient_update": "step"},
    "naive": {"coefficients": "naive", "num_recurrences": 2},
    "zero": {"initial_residuals": "zero", "engine": "reference"},
}


def states_lead_to(model, inputs):
    """The output that the traced states of the last block lead to."""
    with evaluation_mode(model), torch.no_grad():
        traces = trace_blocks(model, encode_input(model, inputs))
        pools = len(inputs.run(model)) != inputs.num_nodes
    inner = find_grama(model)
    last = traces[-1].states[-1]
    if pools:
        last = functional.graph_mean(last.unsqueeze(0), inputs.batch, inputs.batch_size).squeeze(1)
    return inner.head.eval()(last), traces


@pytest.mark.parametrize("make", [grama, grama_for_graphs])
@pytest.mark.parametrize("options", kinds.values(), ids=kinds)
def test_traced_states_lead_to_the_output_of_the_model(options, make):
    model = make(**options)
    inputs = read_input([graph(5), graph(3, seed=1)])
    model(inputs.x, inputs.edge_index, batch=inputs.batch)  # running statistics
    out, traces = states_lead_to(model, inputs)
    expected, coefficients = model.eval()(
        inputs.x, inputs.edge_index, batch=inputs.batch, return_coefficients=True
    )
    assert torch.allclose(out, expected, atol=1e-12)
    for trace, used in zip(traces, coefficients, strict=True):
        assert torch.allclose(trace.coefficients.phi, used.phi)
        assert torch.allclose(trace.coefficients.theta, used.theta)
        assert len(trace.states) == model.num_recurrences


def test_encoders_positions_edges_and_wrappers_are_followed():
    torch.manual_seed(0)
    model = GRAMA(
        6,
        4,
        2,
        seq_len=3,
        backbone="gatedgcn",
        node_encoder=CategoricalEncoder([4, 3], 6),
        edge_encoder=CategoricalEncoder([5], 7),
        edge_dim=7,
        pe_channels=2,
    )
    inputs = ModelInput(
        torch.randint(3, (5, 2)),
        graph(5).edge_index,
        edge_attr=torch.randint(5, (8, 1)),
        pe=torch.randn(5, 2),
    )
    out, _ = states_lead_to(model, inputs)
    assert torch.allclose(out, inputs.run(model.eval()), atol=1e-6)


def test_a_wrapper_is_run_for_what_it_passes_on():
    model, inputs = Stage(grama()), graph(5)
    assert find_grama(model) is model.model
    with evaluation_mode(model):
        assert torch.equal(encode_input(model, inputs).x, 2 * inputs.x)
    out, _ = states_lead_to(model, inputs)
    assert torch.allclose(out, inputs.run(model), atol=1e-12)
    assert not model.model._forward_pre_hooks


def test_a_sequence_with_positions_is_followed():
    model = GRAMA(3, 4, 2, seq_len=4, pe_channels=2).eval()
    inputs = ModelInput(torch.randn(5, 4, 3), graph(5).edge_index, pe=torch.randn(5, 2))
    out = model.head(trace_blocks(model, encode_input(model, inputs))[-1].states[-1])
    assert torch.allclose(out, inputs.run(model), atol=1e-6)


def test_models_without_grama_are_refused():
    model = nn.Linear(3, 3)
    assert find_grama(model) is None
    with pytest.raises(ValueError, match=r"Expected a GRAMA model .*\(got Linear\)"):
        encode_input(model, graph(3))

    class Silent(Stage):
        def forward(self, *_):
            return None

    with pytest.raises(ValueError, match="call the GRAMA model inside it"):
        encode_input(Silent(grama()), graph(3))
