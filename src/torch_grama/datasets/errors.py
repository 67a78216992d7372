"""What a reader of data raises: one sentence that names the file, the fault and the remedy."""


class DatasetError(ValueError):
    r"""The data is there but cannot be used as it is."""


class DatasetMissingError(DatasetError):
    r"""A file that is needed lies in no local folder and could not be fetched."""


class DownloadError(DatasetError):
    r"""Every source of a file failed, or delivered something other than the published file."""


class UnsafePickleError(DatasetError):
    r"""A pickle asks for an object outside the short list that data files need."""
