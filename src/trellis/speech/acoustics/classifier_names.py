"""The classifiers that an aligner can be given by name."""

from __future__ import annotations

from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.acoustics.feed_forward import NetworkOptions
from trellis.speech.acoustics.frame_classifiers import (
    ClassifierOptions,
    NetworkClassifier,
    PassiveAggressiveClassifier,
)

AnyClassifierOptions = ClassifierOptions | ConvolutionalOptions

CLASSIFIERS: dict[str, AnyClassifierOptions] = {
    "convolutional": ConvolutionalOptions(),
    "mlp": NetworkClassifier(),
    "linear": NetworkClassifier(network=NetworkOptions(hidden=())),
    "torch": NetworkClassifier(network=NetworkOptions(hidden=(256, 256), torch=True)),
    "passive_aggressive": PassiveAggressiveClassifier(),
}


def get_classifier(classifier: str | AnyClassifierOptions) -> AnyClassifierOptions:
    """A classifier by name with its default options, or as given."""
    return CLASSIFIERS[classifier] if isinstance(classifier, str) else classifier
