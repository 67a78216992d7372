from grama_process import ForkedProcess
from torch_grama import datasets

SETS = (
    "generate_transfer('crossed-ring', 10)",
    "generate_transfer('line', 5, 'legacy')",
    "generate_transfer('ring', 5, 'carry')",
    "generate_property(sizes=((25, 60), (34, 60)))",
    "generate_property(seed=8, sizes=((25, 60), (34, 60)))",
    "generate_pattern(counts=(100, 0, 0))",
    "generate_cluster(counts=(20, 0, 0))",
    "generate_cluster(seed=1, counts=(20, 0, 0))",
)


def print_fingerprints():
    names = {name: getattr(datasets, name) for name in datasets.__all__}
    for made in SETS:
        print(eval(f"{made}.fingerprint()", names))


def test_the_same_seed_gives_the_same_bytes_in_another_process(capsys):
    # strings have other hashes there
    there, err = ForkedProcess(print_fingerprints).communicate()
    print_fingerprints()
    here = capsys.readouterr().out
    assert there == here, err
    assert len(set(here.split())) == len(SETS)
