import torch
from torch.nn import Linear, Module, MultiheadAttention, Sequential
from torch_geometric.nn import GCNConv, GINEConv

from torch_grama.nn.gps_layer import GPSLayer, reset_what_is_left_out
from torch_grama.nn.neighbor_convs import build_aggregation


def summarising_conv() -> GINEConv:
    return GINEConv(Linear(8, 8), aggr=build_aggregation("multi", 8))


def fill(module: Module) -> Module:
    with torch.no_grad():
        for value in module.parameters():
            value.fill_(9.0)
    return module


def list_kept(module: Module) -> list[str]:
    return [name for name, value in module.named_parameters() if bool((value == 9.0).any())]


class TestResetWhatIsLeftOut:
    def test_draws_the_last_map_of_attention(self):
        module = fill(MultiheadAttention(8, 2))

        reset_what_is_left_out(module)

        assert list_kept(module) == ["in_proj_weight", "in_proj_bias"]
        assert not module.out_proj.bias.any()

    def test_attention_without_bias(self):
        module = fill(MultiheadAttention(8, 2, bias=False))

        reset_what_is_left_out(module)

        assert list_kept(module) == ["in_proj_weight"]

    def test_draws_the_aggregation_wherever_it_is(self):
        module = fill(Sequential(Linear(8, 8), summarising_conv()))

        reset_what_is_left_out(module)

        assert all(not name.startswith("1.aggr_module") for name in list_kept(module))
        assert "0.weight" in list_kept(module)

    def test_leaves_other_modules_and_the_random_numbers_alone(self):
        module = fill(Sequential(Linear(8, 8), GCNConv(8, 8), GINEConv(Linear(8, 8))))
        before = torch.get_rng_state()

        reset_what_is_left_out(module)

        assert len(list_kept(module)) == len(list(module.parameters()))
        assert torch.equal(torch.get_rng_state(), before)


def test_a_layer_that_is_reset_forgets_every_parameter():
    layer = fill(GPSLayer(8, summarising_conv()))

    layer.reset_parameters()

    assert list_kept(layer) == []
