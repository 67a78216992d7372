import pytest

from torch_grama.datasets import DatasetError
from torch_grama.datasets.own_data import load_path


def everything(folder):
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def refuses(tmp_path):
    """Asserts that a path is refused in one sentence and that nothing is written."""

    def check(path, sentence, **options):
        before = everything(tmp_path)
        with pytest.raises(DatasetError, match=sentence) as caught:
            load_path(path, **options)
        assert everything(tmp_path) == before
        message = str(caught.value)
        assert "\n" not in message
        assert str(path) in message
        assert message.endswith((".", "?"))
        return message

    return check
