"""A structured loss over any token classifier: a module that gives each token one score per label.

The classifier's logits are the unary scores of a chain, and the transition, start and end scores are
parameters of this module, zeros before training: at first the best labels are those of the classifier.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trellis.core.arguments import check_int
from trellis.core.errors import DataError
from trellis.neural.chain.neural_chain import Chain
from trellis.neural.chain.rearranged_batch import IGNORED
from trellis.neural.tensor_questions import decode, marginals, structured_loss
from trellis.objectives.records import Objective, get_objective


class StructuredTokenOutput(NamedTuple):
    """``loss``: a number, None without labels. ``logits`` [batch, time, labels]: the classifier's.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import StructuredTokenOutput
    >>> StructuredTokenOutput(None, torch.zeros(1, 2, 3)).logits.shape
    torch.Size([1, 2, 3])
    """

    loss: Tensor | None
    logits: Tensor


class StructuredTokenClassifier(nn.Module):
    """Trains a token classifier by an objective of whole sequences, and decodes whole sequences.

    Parameters
    ----------
    model : a module whose result is logits [batch, time, n_labels], or has them as ``logits``. It is called
        with everything that ``forward`` takes but ``labels`` and ``mask``, so it computes no loss of its own.
    n_labels : the number of labels.
    objective, loss, epsilon : as for :func:`~trellis.neural.structured_loss`; the value is the mean over the
        sequences of the batch.
    constraints : booleans (n_labels, n_labels), rows the previous label, true where allowed; or what
        :func:`~trellis.data.constraints.legal_transitions` gives. Forbidden transitions have probability 0.

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import StructuredTokenClassifier
    >>> embedding = torch.nn.Embedding(5, 2)  # any module that gives logits [batch, time, labels]
    >>> tagger = StructuredTokenClassifier(embedding, n_labels=2, objective="margin")
    >>> words, labels = torch.tensor([[1, 2, 3]]), torch.tensor([[0, 1, -100]])
    >>> tagger(words, labels=labels).loss.requires_grad
    True
    >>> tagger.decode(words).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        model: nn.Module,
        n_labels: int,
        *,
        objective: str | Objective = "log",
        loss: Any = "hamming",
        epsilon: float | None = None,
        constraints: Any = None,
    ) -> None:
        super().__init__()
        n_labels = check_int("n_labels", n_labels, 1)
        self.model = model
        self.transitions = nn.Parameter(torch.zeros(n_labels, n_labels))
        self.start = nn.Parameter(torch.zeros(n_labels))
        self.end = nn.Parameter(torch.zeros(n_labels))
        self.objective, self.loss, self.epsilon = get_objective(objective), loss, epsilon
        self.constraints = constraints

    @property
    def chain(self) -> Chain:
        """The structure over the logits, at the parameters as they are now."""
        return Chain(self.transitions, self.start, self.end, self.constraints)

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        **inputs: Any,
    ) -> StructuredTokenOutput:
        """The logits, and with ``labels`` the loss.

        Parameters
        ----------
        input_ids, **inputs : for the classifier, of any type.
        attention_mask : [batch, time], given to the classifier where it is not None.
        labels : [batch, time], -100 for a token that has no label (a special token, the rest of a word, the
            padding): the tokens on both sides of it are neighbours. -1 is a label that is not known.
        mask : [batch, time], true on the tokens of the chain, in place of ``attention_mask``.
        """
        logits = self.logits(input_ids, attention_mask, **inputs)
        if labels is None:
            return StructuredTokenOutput(None, logits)
        steps = self._steps(attention_mask, mask)
        how: dict[str, Any] = {"objective": self.objective, "loss": self.loss, "epsilon": self.epsilon}
        return StructuredTokenOutput(structured_loss(self.chain, logits, labels, mask=steps, **how), logits)

    def decode(
        self,
        input_ids: Any = None,
        attention_mask: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        **inputs: Any,
    ) -> Tensor:
        """[batch, time] the best labels of each sequence under the constraints, -100 outside the mask.

        Give the ``mask`` that the labels had in training (``labels != -100``), if they left out tokens.
        """
        with torch.no_grad():
            logits = self.logits(input_ids, attention_mask, **inputs)
            labels: Tensor = decode(self.chain, logits, mask=self._steps(attention_mask, mask))
        return labels.masked_fill(labels < 0, IGNORED)

    def marginals(
        self,
        input_ids: Any = None,
        attention_mask: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        **inputs: Any,
    ) -> Tensor:
        """[batch, time, n_labels] the probability of each label, 0 outside the mask; differentiable."""
        logits = self.logits(input_ids, attention_mask, **inputs)
        found: Tensor = marginals(self.chain, logits, mask=self._steps(attention_mask, mask))
        return found

    def logits(self, input_ids: Any = None, attention_mask: Tensor | None = None, **inputs: Any) -> Tensor:
        """What the classifier gives, checked."""
        if attention_mask is not None:
            inputs["attention_mask"] = attention_mask
        found = self.model(**inputs) if input_ids is None else self.model(input_ids, **inputs)
        logits = getattr(found, "logits", found)
        n_labels = len(self.start)
        if not isinstance(logits, Tensor) or logits.ndim != 3 or logits.shape[-1] != n_labels:
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise DataError(
                f"the model gives {shape}; it must give logits [batch, time, {n_labels}], or an object with "
                "these as .logits"
            )
        return logits

    @staticmethod
    def _steps(attention_mask: Tensor | None, mask: Tensor | None) -> Tensor | None:
        return attention_mask if mask is None else mask
