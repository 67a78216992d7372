import pytest
import torch
from backbone_cases import CASES, SendTanh
from torch.nn import Linear, Module, ModuleList, Parameter, ReLU, Sequential
from torch_geometric.nn import (
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GPSConv,
    GraphConv,
    ResGatedGraphConv,
    SAGEConv,
    TransformerConv,
)

from torch_grama.nn import GatedGCNConv, GPSLayer, NeighborSumConv, NormedConv
from torch_grama.nn.backbone import (
    BackboneCall,
    BoundBackbone,
    build_backbone,
    forward_parameters,
    read_compiled,
)
from torch_grama.nn.graph_input import GraphInput


class Recorder(Module):
    """A backbone that notes what it was called with."""

    def __init__(self):
        super().__init__()
        self.scale = Parameter(torch.ones(()))
        self.calls = []


class TakesNothing(Recorder):
    def forward(self, x, edge_index):
        self.calls.append({})
        return x


class TakesAll(Recorder):
    def forward(self, x, edge_index, edge_weight, edge_attr, batch, batch_size, step):
        self.calls.append(
            {
                "edge_weight": edge_weight,
                "edge_attr": edge_attr,
                "batch": batch,
                "batch_size": batch_size,
                "step": step,
            }
        )
        return x


class NamesNothing(Module):
    def forward(self, *args, **kwargs):
        return args[0]


class PassesOn(Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, *args, **kwargs):
        return self.conv(*args, **kwargs)


def bound(module, graph):
    return BoundBackbone(module, BackboneCall.inspect(module), graph)


@pytest.fixture
def full(batch):
    return GraphInput(
        batch.num_nodes, batch.edge_index, batch.edge_weight, batch.edge_attr, batch.batch, 3
    )


class TestBuild:
    @pytest.mark.parametrize(
        ("word", "has_edges", "kind", "inside"),
        [
            ("gcn", False, GCNConv, None),
            *(("gatedgcn", has_edges, GatedGCNConv, None) for has_edges in (False, True)),
            *(("neighbor-sum", has_edges, NeighborSumConv, None) for has_edges in (False, True)),
            ("gin", False, NormedConv, GINConv),
            ("gin", True, NormedConv, GINEConv),
            ("gps", False, GPSLayer, GCNConv),
            ("gps", True, GPSLayer, GINEConv),
        ],
    )
    def test_words(self, word, has_edges, kind, inside):
        module = build_backbone(word, 8, 3, has_edge_attr=has_edges)
        assert type(module) is kind
        assert inside is None or isinstance(module.conv, inside)
        assert not has_edges or BackboneCall.inspect(module).edge_attr

    def test_a_word_gets_dropout_and_the_number_of_recurrences(self):
        assert build_backbone("gps", 8, 3, dropout=0.3).dropout == 0.3
        assert build_backbone("gatedgcn", 8, 3).node_norm.num_steps == 3
        assert build_backbone("neighbor-sum", 8, 3).norm.num_steps == 3
        assert build_backbone("gin", 8, 3).norm.num_steps == 3

    @pytest.mark.parametrize(
        ("word", "now"),
        [
            ("gcn-root", r"RootedGCNConv\(channels\)"),
            ("gatedgcn-plain", r"GatedGCNConv\(channels, norm=None\)"),
            ("gatedgcn-sum", "normalize_gates=False"),
            ("gin-multi", "aggregation='multi'"),
            ("gps-multi-pre", "aggregation='multi'.*pre_norm=True"),
            ("gps-performer", "attention='performer'"),
        ],
    )
    def test_a_word_of_old_is_answered_with_the_module(self, word, now):
        with pytest.raises(ValueError, match=rf"got '{word}'.*pass the module instead: .*{now}"):
            build_backbone(word, 8, 3)

    @pytest.mark.parametrize("module", [GCNConv(8, 8), GPSConv(8, GCNConv(8, 8))], ids=type)
    def test_a_module_is_cloned_and_initialised_anew_as_a_whole(self, module):
        before = {name: value.clone() for name, value in module.named_parameters()}
        clone = build_backbone(module, 8, 3)
        for name, value in module.named_parameters():
            assert torch.equal(value, before[name])
            assert value.dim() == 1 or not torch.equal(clone.get_parameter(name), value), name

    def test_a_callable_gets_the_channels(self):
        assert build_backbone(lambda channels: GCNConv(channels, channels), 6, 3).in_channels == 6

    def test_a_lazy_module_has_any_width(self):
        assert build_backbone(GCNConv(-1, 8), 8, 3).out_channels == 8

    @pytest.mark.parametrize(
        "backbone",
        [
            "gcn",
            GCNConv(8, 8),
            GINConv(Linear(8, 8)),
            GINConv(Sequential(Linear(8, 8), ReLU())),
            SAGEConv(8, 8),
            GraphConv(8, 8),
            GATv2Conv(8, 8),
            TransformerConv(8, 8),
            ResGatedGraphConv(8, 8),
            GPSConv(8, GCNConv(8, 8)),
            GPSConv(8, GATv2Conv(8, 8)),
            GPSConv(8, None),
            SendTanh(8),
        ],
        ids=lambda backbone: str(backbone).replace("\n", ""),
    )
    def test_edge_attributes_with_a_backbone_that_cannot_use_them(self, backbone):
        with pytest.raises(ValueError, match=r"Expected a backbone that uses edge attr") as error:
            build_backbone(backbone, 8, 3, has_edge_attr=True)
        assert "\n" not in str(error.value)


class TestInspect:
    @pytest.mark.parametrize(
        ("module", "takes"),
        [
            (GCNConv(8, 8), {"edge_weight"}),
            (GraphConv(8, 8), {"edge_weight"}),
            (SAGEConv(8, 8), set()),
            (GINConv(Linear(8, 8)), set()),
            (GINEConv(Linear(8, 8), edge_dim=3), {"edge_attr", "requires_edge_attr"}),
            (GATv2Conv(8, 8), set()),
            (GATv2Conv(8, 8, edge_dim=3), {"edge_attr"}),
            (GPSConv(8, GCNConv(8, 8)), {"edge_weight", "batch"}),
            (GPSConv(8, GATv2Conv(8, 8, edge_dim=3)), {"edge_attr", "batch"}),
            (
                GPSConv(8, GINEConv(Linear(8, 8), edge_dim=3)),
                {"edge_attr", "requires_edge_attr", "batch"},
            ),
            (GPSConv(8, None), {"batch"}),
            (GPSLayer(8, GCNConv(8, 8)), {"edge_weight", "batch", "batch_size", "layout", "step"}),
            (PassesOn(GCNConv(8, 8)), {"edge_weight"}),
            (PassesOn(GPSLayer(8)), {"batch", "batch_size", "layout", "step"}),
            (GatedGCNConv(8), {"edge_attr", "edge_order", "step", "edge_state"}),
            (
                GatedGCNConv(8, edge_state="model"),
                {"edge_attr", "edge_order", "step", "edge_state", "edges_leave"},
            ),
            (NeighborSumConv(8), {"edge_attr", "edge_order", "step"}),
            (NormedConv(GCNConv(8, 8), 8), {"edge_weight", "step"}),
            (GINConv(Sequential(Linear(8, 8), ReLU(inplace=True))), {"copies_input"}),
            (SendTanh(8), set()),
            (
                TakesAll(),
                {"edge_weight", "edge_attr", "requires_edge_attr", "batch", "batch_size", "step"},
            ),
        ],
        ids=lambda value: value if isinstance(value, set) else type(value).__name__,
    )
    def test_which_arguments_are_taken(self, module, takes):
        call = BackboneCall.inspect(module)
        assert {name for name, taken in vars(call).items() if taken} == takes

    @pytest.mark.parametrize(
        "module", [GCNConv(8, 8), GPSLayer(8, GCNConv(8, 8)), GatedGCNConv(8)], ids=type
    )
    def test_a_compiled_module_takes_what_it_was_made_of_takes(self, module):
        compiled = torch.compile(module, backend="eager")
        assert vars(BackboneCall.inspect(compiled)) == vars(BackboneCall.inspect(module))

    def test_a_signature_without_names_gets_a_warning(self):
        with pytest.warns(UserWarning, match=r"NamesNothing.* names no arguments .* 'batch'"):
            call = BackboneCall.inspect(NamesNothing())
        assert not any(vars(call).values())

    @pytest.mark.parametrize(
        ("module", "given", "message"),
        [
            (SAGEConv(8, 8), {"edge_weight"}, r"no 'edge_weight' \(got one.*SAGEConv\(8, 8"),
            (SendTanh(8), {"edge_weight"}, r"no 'edge_weight' \(got one, but the backbone SendT"),
            (GCNConv(8, 8), {"edge_attr"}, r"no 'edge_attr' \(got one.*GCNConv\(8, 8\) cannot"),
            (GINEConv(Linear(8, 8)), set(), r"Expected 'edge_attr' \(the backbone GINEConv.*needs"),
            (TakesAll(), set(), r"Expected 'edge_attr' \(the backbone TakesAll"),
        ],
        ids=lambda value: None,
    )
    def test_what_the_graph_brings_must_be_of_use(self, module, given, message, path):
        parts = {name: path[name] for name in given}
        graph = GraphInput(path.num_nodes, path.edge_index, **parts)
        with pytest.raises(ValueError, match=message) as error:
            BackboneCall.inspect(module).check(module, graph)
        assert "\n" not in str(error.value)


class TestBound:
    def test_what_is_taken_and_nothing_else_is_passed(self, full, batch):
        nothing, everything = TakesNothing(), TakesAll()
        for module in (nothing, everything):
            assert bound(module, full)(batch.x) is not None
        assert nothing.calls == [{}]
        (call,) = everything.calls
        assert all(call[name] is batch[name] for name in ("edge_weight", "edge_attr", "batch"))
        assert call["batch_size"] == 3

    @pytest.mark.long
    def test_attention_in_a_compiled_module_stays_within_a_graph(self, batch):
        module = torch.compile(GPSLayer(5, GCNConv(5, 5)).double(), backend="eager")
        graph = GraphInput(12, batch.edge_index, batch=batch.batch, batch_size=3)
        moved = batch.x.clone()
        moved[batch.batch > 0] += 1
        difference = bound(module, graph)(moved) - bound(module, graph)(batch.x)
        assert not difference[batch.batch == 0].any()
        assert difference[batch.batch > 0].any()

    def test_a_list_has_one_module_for_each_recurrence(self, full, batch):
        modules = ModuleList([TakesAll() for _ in range(3)])
        backbone = BoundBackbone(modules, BackboneCall.inspect(modules[0]), full)
        for _ in range(3):
            backbone(batch.x)
        assert [[call["step"] for call in module.calls] for module in modules] == [[0], [1], [2]]

    def test_another_width_gets_one_sentence(self, path):
        graph = GraphInput(path.num_nodes, path.edge_index)
        module = GINConv(Linear(5, 1)).double()
        with pytest.raises(ValueError, match=r"GINConv.*shape \[4, 5\] \(got \[4, 1\]\)"):
            bound(module, graph)(path.x)

    @pytest.mark.parametrize("module", [GCNConv(5, 8), SAGEConv(5, 8), GCNConv(8, 8)], ids=str)
    def test_another_width_of_a_linear_map_gets_one_sentence(self, path, module):
        graph = GraphInput(path.num_nodes, path.edge_index)
        with pytest.raises(ValueError, match=r"shape \[4, 5\] \(got \[4, 8\]\)"):
            bound(module, graph).as_linear_map(5)


def test_a_compiled_module_is_read_as_the_one_it_was_made_from():
    module = GCNConv(4, 4)
    compiled = torch.compile(module, backend="eager")
    assert read_compiled(compiled) is module
    assert read_compiled(module) is module
    for given in (compiled, module):
        assert list(forward_parameters(given)) == ["x", "edge_index", "edge_weight"]


def test_names_of_cases_differ():
    assert len({case.name for case in CASES}) == len(CASES)
