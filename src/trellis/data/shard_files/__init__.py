"""Data that lie in files: a folder, a pattern or a list of paths, cut into shards at sequence boundaries.

    files = ShardFiles("data/*.conll.gz")
    inputs, labels = files.shards()[0].read()        # in the kinds that ``fit`` takes

Where the cuts are depends on the files alone. A shard is a small record that says what to read where; it goes
to another process or machine as it is, and is read there.
"""

from trellis.data.shard_files.file_shard import FileShard
from trellis.data.shard_files.shard_files import (
    ShardFiles,
    as_shard_files,
    comes_in_shards,
    encoding_stage,
)

__all__ = ["FileShard", "ShardFiles", "as_shard_files", "comes_in_shards", "encoding_stage"]
