import pytest

from torch_grama.reproduce.reproduction import settings_of_row

WORDS = {"gcn", "gps", "grama", "grama-special", "gcn-width64"}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("gcn", {"model.name": "gcn"}),
        ("gps+lappe", {"model.name": "gps", "data.lap_pe": 10}),
        ("grama-gatedgcn", {"model.name": "grama", "model.backbone": "gatedgcn"}),
        (
            "grama-gps-performer",
            {
                "model.name": "grama",
                "model.backbone": "gps",
                "model.backbone_options": {"attention": "performer"},
            },
        ),
        (
            "grama-gcn-naive",
            {"model.name": "grama", "model.backbone": "gcn", "model.coefficients": "naive"},
        ),
        (
            "grama-gcn-l16s4",
            {
                "model.name": "grama",
                "model.backbone": "gcn",
                "model.seq_len": 16,
                "model.num_blocks": 4,
            },
        ),
        ("gps-depth8", {"model.name": "gps", "model.num_layers": 8}),
        ("gps-width32", {"model.name": "gps", "model.hidden_channels": 32}),
        ("grama-special", {"model.name": "grama-special"}),
        ("gcn-width64", {"model.name": "gcn-width64"}),
    ],
)
def test_names_say_what_is_run(row, expected):
    assert settings_of_row(row, WORDS) == expected


def test_unknown_names():
    with pytest.raises(ValueError, match="`grama models` lists"):
        settings_of_row("gcm", WORDS)
    with pytest.raises(ValueError, match=r"such as 'gps', "):
        settings_of_row("gpss", WORDS)
    with pytest.raises(ValueError, match=r"backbone of grama-gcm.*one of 'gcn', .*got 'gcm'"):
        settings_of_row("grama-gcm-naive", WORDS)
    with pytest.raises(ValueError, match=r"one of rwse, lappe, deg \(got 'pe'\)"):
        settings_of_row("gcn+pe", WORDS)
