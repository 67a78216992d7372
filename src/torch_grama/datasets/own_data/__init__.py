"""A user's own graphs: read from plain files, described, and written."""

from torch_grama.datasets.describe import describe
from torch_grama.datasets.own_data.load import from_frames, load_path
from torch_grama.datasets.own_data.write import write_csv_folder, write_json_lines

__all__ = ["describe", "from_frames", "load_path", "write_csv_folder", "write_json_lines"]
