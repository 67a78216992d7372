import re

import pytest
import torch
from backbone_cases import BY_NAME, CASES, BackboneCase, backbones
from model_gradients import assert_same_gradients, loss_gradients
from torch_geometric.utils import to_torch_csr_tensor

from torch_grama.nn import GRAMA

GCN = BY_NAME["gcn"]
# from eight recurrences on, a linear backbone is run by Horner's rule
settings = pytest.mark.parametrize(
    "options",
    [{"readout": "node"}, {"readout": "graph"}, {"seq_len": 2, "num_recurrences": 9}],
    ids=str,
)


class TestEngines:
    """Same numbers, different speed."""

    @backbones()
    @settings
    @pytest.mark.parametrize("engine", ["auto", "scan"])
    def test_equal_the_reference(self, case, engine, options, batch):
        model, reference = (case.model(engine=e, **options) for e in (engine, "reference"))

        out, expected = case.run(model, batch), case.run(reference, batch)

        assert torch.allclose(out, expected)
        assert_same_gradients(loss_gradients(model, out), loss_gradients(reference, expected))

    @pytest.mark.parametrize(
        "options",
        [
            {"coefficients": "naive"},
            {"normalization": "l1"},
            {"normalization": "softmax", "heads": 2},
            {"normalization": "none", "coefficients": "naive"},
            {"initial_residuals": "zero"},
            {"act": "gelu"},
            {"act": None},
            {"act": torch.sin},
            {"norm": "layer_norm"},
            {"norm": "batch_norm"},
            {"ar_order": 1, "ma_order": 2},
            {"num_recurrences": 2},
            {"num_recurrences": 10, "ar_order": 2},
            {"gain": None},
            {"embedding_layers": 2, "readout_layers": 3},
            {"num_blocks": 1},
            {"num_blocks": 4},
        ],
        ids=lambda options: re.sub(r" at 0x\w+", "", str(options)),
    )
    @pytest.mark.parametrize("engine", ["auto", "scan", "linear"])
    def test_equal_the_reference_with_options(self, batch, engine, options):
        model, reference = (GCN.model(engine=e, **options) for e in (engine, "reference"))

        out, expected = GCN.run(model, batch), GCN.run(reference, batch)

        assert torch.allclose(out, expected)
        assert_same_gradients(loss_gradients(model, out), loss_gradients(reference, expected))

    @pytest.mark.parametrize("engine", ["auto", "scan", "linear"])
    def test_equal_the_reference_for_edge_weights_and_their_gradient(self, batch, engine):
        results = []
        for model in (GCN.model(engine=engine), GCN.model(engine="reference")):
            weight = batch.edge_weight.clone().requires_grad_()
            out = GCN.run(model, batch, edge_weight=weight)
            out.square().sum().backward()
            results.append((out, weight.grad))

        for a, b in zip(*results, strict=True):
            assert torch.allclose(a, b)

    def test_equal_the_reference_in_the_gradient_of_the_features(self, batch):
        gradients = []
        for engine in ("auto", "scan", "reference"):
            x = batch.x.clone().requires_grad_()
            model = GCN.model(engine=engine)
            model(x, batch.edge_index, batch=batch.batch).square().sum().backward()
            gradients.append(x.grad)

        assert torch.allclose(gradients[0], gradients[2])
        assert torch.allclose(gradients[1], gradients[2])

    def test_dropout_draws_the_same_numbers(self, batch):
        outputs = []
        for engine in ("auto", "scan", "reference"):
            model = GCN.model(engine=engine, dropout=0.5)
            torch.manual_seed(3)
            outputs.append(GCN.run(model, batch))

        assert torch.allclose(outputs[0], outputs[2])
        assert torch.allclose(outputs[1], outputs[2])

    def test_the_linear_engine_needs_a_linear_backbone(self, path):
        model = BackboneCase("", lambda: "gatedgcn").model(engine="linear")

        with pytest.raises(ValueError, match="linear backbone for engine='linear'"):
            model(path.x, path.edge_index)

    @pytest.mark.parametrize("engine", ["auto", "scan"])
    def test_second_backward_pass_through_a_retained_graph(self, path, engine):
        model = GCN.model(engine=engine)
        out = GCN.run(model, path)

        gradients = [
            torch.autograd.grad(out.sum(), list(model.parameters()), retain_graph=True)
            for _ in range(2)
        ]

        for a, b in zip(*gradients, strict=True):
            assert torch.equal(a, b)

    @pytest.mark.parametrize("engine", ["auto", "scan"])
    def test_forward_passes_do_not_disturb_an_older_graph(self, path, engine):
        model = GCN.model(engine=engine)
        expected = loss_gradients(model, GCN.run(model, path))
        out = GCN.run(model, path)

        loss_gradients(model, GCN.run(model, path))

        assert_same_gradients(loss_gradients(model, out), expected)


class TestWithoutGradients:
    @pytest.mark.parametrize("engine", ["auto", "scan", "reference"])
    @pytest.mark.parametrize("norm", [None, "layer_norm"])
    @pytest.mark.parametrize("act", ["relu", "tanh", "gelu", None])
    def test_the_same_numbers(self, batch, engine, norm, act):
        model = GCN.model(engine=engine, norm=norm, act=act, num_blocks=3)
        expected = GCN.run(model, batch)

        for context in (torch.no_grad(), torch.inference_mode()):
            with context:
                assert torch.allclose(GCN.run(model, batch), expected)

    def test_what_a_hook_kept_of_a_norm_stays(self, batch):
        model = GCN.model(norm="layer_norm")
        kept = []
        model.blocks[0].state_norm.register_forward_hook(lambda *call: kept.append(call[-1]))

        with torch.no_grad():
            GCN.run(model, batch)

        assert bool((kept[0] < 0).any())

    def test_the_block_leaves_its_input_alone(self, path):
        block = GCN.model().blocks[0]
        given = torch.randn(2, block.seq_len, 4, block.channels, dtype=torch.float64)
        before = given.clone()

        with torch.no_grad():
            block(given[0], given[1], path.edge_index)

        assert torch.equal(given, before)


class TestLargeTensors:
    """Memory that is used again, from the first to the last step."""

    def make(self, **options):
        torch.manual_seed(1)
        sizes = {"seq_len": 8, "num_blocks": 2, "check_input": False}
        return GRAMA(3, 32, 2, **sizes, **options)

    def graph(self):
        generator = torch.Generator().manual_seed(0)
        num_nodes = 5000  # 8 x 5000 x 32 numbers take 5 MB
        edge_index = torch.randint(num_nodes, (2, 3 * num_nodes), generator=generator)
        return torch.randn(num_nodes, 3, generator=generator), edge_index

    @pytest.mark.parametrize("options", [{}, {"checkpoint_blocks": True}], ids=str)
    def test_equal_the_reference_step_after_step(self, options):
        x, edge_index = self.graph()
        results = []
        for model in (self.make(**options), self.make(engine="reference")):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            losses = []
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(x, edge_index).square().mean()
                loss.backward()
                optimizer.step()
                with torch.no_grad():
                    losses.append((loss.item(), model(x, edge_index).square().mean().item()))
            results.append(torch.tensor(losses))

        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-6)

    def test_two_graphs_of_autograd_at_once(self):
        x, edge_index = self.graph()
        model = self.make()
        expected = [
            torch.autograd.grad(model(part, edge_index).sum(), list(model.parameters()))
            for part in (x, 2 * x)
        ]

        outs = [model(part, edge_index) for part in (x, 2 * x)]

        for out, gradients in zip(outs, expected, strict=True):
            for a, b in zip(
                torch.autograd.grad(out.sum(), list(model.parameters())), gradients, strict=True
            ):
                torch.testing.assert_close(a, b)


class TestCheckpoint:
    @backbones()
    @settings
    def test_equals_the_plain_model_in_value_and_gradient(self, case, options, batch):
        plain, saving = (case.model(checkpoint_blocks=flag, **options) for flag in (False, True))

        expected, out = case.run(plain, batch), case.run(saving, batch)

        assert torch.allclose(out, expected)
        assert_same_gradients(loss_gradients(saving, out), loss_gradients(plain, expected))
        for (name, a), b in zip(saving.named_buffers(), plain.buffers(), strict=True):
            assert torch.allclose(a, b), name

    @pytest.mark.parametrize(
        "options",
        [
            {"coefficients": "naive"},
            {"coefficient_update": "step"},
            {"norm": "batch_norm"},
            {"dropout": 0.5},
            {"engine": "scan"},
            {"engine": "reference"},
            {"initial_residuals": "zero"},
            {"cached": True},
        ],
        ids=str,
    )
    def test_equals_the_plain_model_with_options(self, options, batch):
        results = []
        for flag in (False, True):
            model = GCN.model(num_blocks=3, checkpoint_blocks=flag, **options)
            torch.manual_seed(2)
            out = GCN.run(model, batch)
            results.append((out, loss_gradients(model, out), list(model.buffers())))

        assert torch.allclose(results[0][0], results[1][0])
        assert_same_gradients(results[0][1], results[1][1])
        assert all(torch.equal(a, b) for a, b in zip(results[0][2], results[1][2], strict=True))

    @pytest.mark.parametrize("engine", ["auto", "scan", "reference"])
    def test_edge_weights_get_their_gradient(self, batch, engine):
        gradients = []
        for flag in (False, True):
            weight = batch.edge_weight.clone().requires_grad_()
            model = GCN.model(checkpoint_blocks=flag, engine=engine)
            GCN.run(model, batch, edge_weight=weight).square().sum().backward()
            gradients.append(weight.grad)

        assert torch.allclose(*gradients)

    def test_features_get_their_gradient(self, batch):
        gradients = []
        for flag in (False, True):
            x = batch.x.clone().requires_grad_()
            model = GCN.model(checkpoint_blocks=flag)
            model(x, batch.edge_index, batch=batch.batch).square().sum().backward()
            gradients.append(x.grad)

        assert torch.allclose(*gradients)

    def test_several_training_steps_equal_those_of_the_plain_model(self, batch):
        losses = []
        for flag in (False, True):
            model = GCN.model(checkpoint_blocks=flag)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            for _ in range(4):
                optimizer.zero_grad()
                loss = GCN.run(model, batch).square().mean()
                loss.backward()
                optimizer.step()
            losses.append(loss.item())

        assert losses[0] == pytest.approx(losses[1], rel=1e-9)

    @pytest.mark.parametrize("sizes", [{}, {"seq_len": 2, "num_recurrences": 9}], ids=str)
    def test_a_second_backward_pass_is_refused(self, batch, sizes):
        model = GCN.model(checkpoint_blocks=True, **sizes)
        out = GCN.run(model, batch)
        out.sum().backward(retain_graph=True)

        # gradients have taken the place of the states: an error, and never wrong numbers
        with pytest.raises(RuntimeError, match=r"single backward pass|inplace operation"):
            out.sum().backward()

    def test_evaluation_without_gradients(self, batch):
        model = GCN.model(checkpoint_blocks=True)
        expected = GCN.run(GCN.model(), batch)

        with torch.no_grad():
            assert torch.allclose(GCN.run(model, batch), expected)


class TestCached:
    def test_equals_the_plain_model(self, path):
        plain, cached = GCN.model(), GCN.model(cached=True)

        for _ in range(2):
            expected, out = GCN.run(plain, path), GCN.run(cached, path)
            assert torch.equal(out, expected)
            assert_same_gradients(loss_gradients(cached, out), loss_gradients(plain, expected))

    def test_keeps_the_matrix_of_the_first_graph(self, path):
        model = GCN.model(cached=True)
        expected = GCN.run(model, path)

        assert torch.equal(model(path.x, path.edge_index[:, :2]), expected)

    def test_a_plain_model_keeps_none(self, path):
        model = GCN.model()
        GCN.run(model, path)

        expected = GCN.model()(path.x, path.edge_index[:, :2])
        assert torch.equal(model(path.x, path.edge_index[:, :2]), expected)

    @pytest.mark.parametrize(
        "forget", [GRAMA.reset_parameters, GRAMA.double, lambda model: model.to("cpu")]
    )
    def test_forgets_the_matrix(self, path, forget):
        model = GCN.model(cached=True)
        GCN.run(model, path)
        forget(model)
        state = model.state_dict()

        fresh = GCN.model()
        fresh.load_state_dict(state)
        fewer = path.edge_index[:, :2]
        assert torch.equal(model(path.x, fewer), fresh(path.x, fewer))

    @pytest.mark.parametrize("engine", ["auto", "scan", "reference"])
    def test_a_matrix_made_without_gradients_serves_training(self, path, engine):
        model = GCN.model(cached=True, engine=engine)
        with torch.inference_mode():
            GCN.run(model, path)

        out = GCN.run(model, path)

        plain = GCN.model(engine=engine)
        expected = loss_gradients(plain, GCN.run(plain, path))
        assert_same_gradients(loss_gradients(model, out), expected)


class TestSparseAdjacency:
    @backbones([case for case in CASES if case.edge_dim is None])
    def test_equals_edge_index(self, case, path):
        model = case.model().eval()
        transposed = to_torch_csr_tensor(path.edge_index.flip(0), size=(4, 4)).double()

        assert torch.allclose(model(path.x, transposed), case.run(model, path))

    def test_is_directed(self, directed):
        model = GCN.model()
        transposed = to_torch_csr_tensor(directed.edge_index.flip(0), size=(5, 5)).double()

        assert torch.allclose(model(directed.x, transposed), GCN.run(model, directed))

    def test_values_are_weights(self, directed):
        model = GCN.model()
        transposed = to_torch_csr_tensor(
            directed.edge_index.flip(0), directed.edge_weight, size=(5, 5)
        )

        expected = GCN.run(model, directed, edge_weight=directed.edge_weight)
        assert torch.allclose(model(directed.x, transposed), expected)

    def test_values_for_a_backbone_that_takes_none(self, directed):
        transposed = to_torch_csr_tensor(
            directed.edge_index.flip(0), directed.edge_weight, size=(5, 5)
        )

        with pytest.raises(ValueError, match="no 'edge_weight'"):
            BY_NAME["gatedgcn"].model()(directed.x, transposed)
