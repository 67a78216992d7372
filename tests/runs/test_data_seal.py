"""The data that a folder was started with, and no other."""

import os

import pytest

from torch_grama.runs.run_folder import RunError, RunFolder
from torch_grama.runs.safe_files import seal_data


def test_a_folder_goes_on_with_its_own_data_alone(tmp_path):
    folder = tmp_path / "new" / "run"
    for _ in range(2):
        seal_data(folder, "a1")
    seal_data(folder, "")  # whoever does not know compares nothing
    with pytest.raises(RunError, match=r"The data is not what '.*run' was started with: restore"):
        seal_data(folder, "b2")
    RunFolder(folder).make()  # which is as good as empty


def test_a_seal_that_is_no_plain_file(tmp_path):
    os.mkfifo(tmp_path / "data.sha")
    with pytest.raises(RunError, match=r"data\.sha' cannot be read \(is no plain file"):
        seal_data(tmp_path, "a1")
