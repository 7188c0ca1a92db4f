"""Samples and the k best labellings of a padded batch in plain PyTorch.

Samples are drawn backwards from the forward messages, y_n ~ exp(alpha_n + end), y_{t-1} ~ exp(alpha_{t-1} +
a_t[., y_t]); the k best by list Viterbi: cell (t, l) keeps the k best prefixes that end in l, chosen from K k
candidates.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trellis.neural.chain.padded_chain import PaddedChain
from trellis.neural.tensors import log_sum_exp


def sample_labels(chain: PaddedChain, n_samples: int, seed: int) -> Tensor:
    """(n_samples, B, T) labels; the padding holds anything."""
    batch, time, _ = chain.unary.shape
    labels = torch.zeros((n_samples, batch, time), dtype=torch.int64, device=chain.unary.device)
    if time == 0:
        return labels
    noise = torch.Generator(device=chain.unary.device).manual_seed(seed)
    alphas = list(chain.messages(log_sum_exp))
    last = (chain.mask.sum(1) - 1).clamp(min=0)
    after = labels[:, :, 0]
    for t in range(time - 1, -1, -1):
        if t + 1 < time:
            pairs = chain.pairs(t + 1).expand(batch, -1, -1)
            column = pairs.transpose(1, 2)[torch.arange(batch, device=after.device), after]
        else:
            column = chain.end.expand(n_samples, batch, -1)
        at_end = (last == t)[None, :, None]
        logits = alphas[t] + torch.where(at_end, chain.end, column)
        weight = torch.exp(logits - logits.amax(-1, keepdim=True)).nan_to_num()
        flat = weight.reshape(-1, weight.shape[-1])
        flat = torch.where(flat.sum(-1, keepdim=True) > 0, flat, torch.ones_like(flat))  # rows of padding
        drawn = torch.multinomial(flat, 1, generator=noise).reshape(n_samples, batch)
        after = torch.where(last >= t, drawn, torch.zeros_like(drawn))
        labels[:, :, t] = after
    return labels


def k_best_labels(chain: PaddedChain, k: int) -> tuple[Tensor, Tensor]:
    """Labels (k, B, T), -1 past the last labelling there is, and scores (B, k), best first."""
    batch, time, size = chain.unary.shape
    labels = torch.full((k, batch, time), -1, dtype=torch.int64, device=chain.unary.device)
    values = chain.unary.new_full((batch, k), -torch.inf)
    if time == 0:
        values[:, 0] = 0.0
        return labels, values
    cells = chain.unary.new_full((batch, size, k), -torch.inf)
    cells[:, :, 0] = chain.start + chain.unary[:, 0]
    origin = []
    stay = torch.arange(size * k, device=chain.unary.device).reshape(size, k).expand(batch, -1, -1)
    for t in range(1, time):
        offers = cells.unsqueeze(-1) + chain.pairs(t).reshape(-1, size, 1, size)
        top, source = _ranked(offers.reshape(batch, size * k, size).transpose(1, 2), k)
        now = chain.mask[:, t, None, None]
        cells = torch.where(now, top + chain.unary[:, t].unsqueeze(-1), cells)
        origin.append(torch.where(now, source, stay))
    final, place = _ranked((cells + chain.end[:, None]).reshape(batch, size * k), k)
    for t in range(time - 1, -1, -1):
        labels[:, :, t] = (place // k).T
        if t > 0:
            place = origin[t - 1].reshape(batch, size * k).gather(1, place)
    empty = ~chain.some[:, None] & (torch.arange(k, device=final.device) == 0)
    values = torch.where(chain.some[:, None], final, torch.where(empty, 0.0, -torch.inf).to(final.dtype))
    return labels.masked_fill((values == -torch.inf).T.unsqueeze(-1), -1), values


def _ranked(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest along the last axis with their places, the first of equals first."""
    top, place = torch.sort(x, dim=-1, descending=True, stable=True)
    return top[..., :k], place[..., :k]
