"""The data of ``trellis report``: read as the kind of model takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trellis.core.errors import DataError, ModelFileError

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.chain_predictor import ChainPredictor

# what the page of each kind needs; others take no data
NEEDS = {
    "SequenceLabeler": "a labelled file",
    "MEMM": "a labelled file",
    "NeuralSequenceLabeler": "a labelled file",
    "GraphLabeler": "a .npz file of labelled graphs (trellis.structures.graph.write_graphs)",
    "HMM": "a file of observations (.npy, .npz, .parquet, .csv)",
    "IOHMM": "a .npz file with arrays X and inputs",
    "LinearGaussian": "a file of observations (.npy, .npz, .parquet, .csv)",
    "Aligner": "a folder of recordings with reference labels",
}


class Source(NamedTuple):
    """A file that belongs to the model of another, with the options of the command."""

    model: str
    file: str
    encoding: str | None
    jobs: int | None


def read_data(kind: str, model: Any, source: Source) -> tuple[Any, Any]:
    """X and y of the page."""
    if kind == "GraphLabeler":
        return _graphs(source)
    if kind == "Aligner":
        return _corpus(source)
    if kind == "IOHMM":
        return _arrays(source, "inputs")
    if kind in ("HMM", "LinearGaussian"):
        return _observations(source)
    return _labelled(model, source)


def _graphs(source: Source) -> tuple[Any, Any]:
    from trellis.structures.graph.scores.graph_files import read_graphs

    graphs, labels = read_graphs(source.file)
    if labels is None:
        raise DataError(f"{source.file}: the graphs have no labels to compare with; write them with labels")
    return graphs, labels


def _corpus(source: Source) -> tuple[Any, None]:
    from trellis.cli.align.corpus_options import CorpusOptions

    return CorpusOptions(encoding=source.encoding).read(source.file), None


def _observations(source: Source) -> tuple[Any, None]:
    from trellis.cli.pages.number_files import is_text_table, read_number_table

    if is_text_table(source.file):
        return read_number_table(source.file, source.encoding or "utf-8"), None
    return _arrays(source, False)[0], None


def _arrays(source: Source, labels: str | bool | None) -> tuple[Any, Any]:
    """Lists of arrays, and of what the array or column ``labels`` has for their steps."""
    from trellis.cli.pages.number_files import is_text_table
    from trellis.core.file_formats import ARRAY_SUFFIXES
    from trellis.data.shard_files import ShardFiles
    from trellis.data.shard_files.joined_pieces import join_pieces

    files = None if is_text_table(source.file) else ShardFiles(source.file, label_column=labels)
    if files is None or files.format not in ARRAY_SUFFIXES.values():
        raise DataError(
            f"{source.file}: this is a text file; give numbers as .npy, .npz, .safetensors or .parquet"
        )
    return join_pieces([shard.read() for shard in files.shards()])


def _labelled(labeler: ChainPredictor, source: Source) -> tuple[Any, Any]:
    """A file in the format that the model holds, or in that which its inputs tell."""
    from trellis.cli.models import INPUT_KEY, input_format
    from trellis.features.array_encoder import ArrayEncoder

    network = getattr(labeler, "inputs_", None)
    if INPUT_KEY not in labeler.extra_:
        encoder = getattr(labeler, "encoder_", None)
        if isinstance(encoder, ArrayEncoder) or getattr(network, "width", None):
            X, y = _arrays(source, None)
            if y is None:
                raise DataError(f"{source.file}: there is no array y of labels to compare with")
            return X, [labels.tolist() for labels in y]
        if getattr(network, "names", ()) == ("word",):
            return _words(source)
        raise ModelFileError(
            f"{source.model}: this model was saved from Python, without the format of its input files; "
            "make its page in Python with model.report(X, y, path=...)"
        )
    layout = input_format(labeler, source.model, source.jobs, source.encoding)
    data = layout.read(source.file)
    return layout.inputs(data), layout.labels(data)


def _words(source: Source) -> tuple[Any, Any]:
    """Words in the first column, labels in the last."""
    from trellis.data.shard_files.input_format import choose_format
    from trellis.data.streams import read_utf8, source_name

    text = read_utf8(source.file, source.encoding or "utf-8")
    name = source_name(source.file)
    layout = choose_format(text, name, None)
    data = layout.parse(text, name)
    words = getattr(layout.inputs(data), "sequences", None)
    if words is None:
        raise DataError(
            f"{name}: this network reads words; give a column file with a word in the first column"
        )
    return words(0), layout.labels(data)
