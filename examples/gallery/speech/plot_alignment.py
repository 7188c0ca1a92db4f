"""
When does each sound begin? A recording, aligned
================================================

The built-in model places the phones of a sentence in its recording. The sentences here were spoken by a
synthesiser, so the true boundaries are known exactly; human speech is harder. The picture shows the
boundaries found on the spectrogram, the true ones above, and how sure the model is of each.
"""

# %%
# Six sentences come with the package, with their phones. Nothing is trained.

import matplotlib.pyplot as plt
import numpy as np

from trellis.speech import builtin_aligner, synthetic_corpus

corpus = synthetic_corpus()
aligner = builtin_aligner()
found = [aligner.align(u.audio, phones=u.phones, alphabet="arpabet", silence="none") for u in corpus]
references = [u.reference for u in corpus if u.reference is not None]

# %%
# These are the errors of all boundaries inside the sentences. ``confidence`` is the model's probability
# that a phone starts within 20 ms of the place it was given. Is it right that often?

errors = np.concatenate([1000 * (a.starts - b.starts)[1:] for a, b in zip(found, references, strict=True)])
sure = np.concatenate([np.array(a.confidence)[1:] for a in found])
shares = [f"{np.mean(abs(errors) <= ms):.0%} within {ms} ms" for ms in (10, 20)]
print(f"{len(errors)} boundaries, {', '.join(shares)}")
half = sure >= np.median(sure)
for name, chosen in (("the surer half", half), ("the other half", ~half)):
    right = np.mean(abs(errors[chosen]) <= 20)
    print(f"{name}: mean confidence {sure[chosen].mean():.2f}, within 20 ms {right:.2f}")

# %%
# The picture shows one sentence. An orange label marks a phone whose start has a confidence below 0.8:
# these are the ones to check.

shown = 3
sound, alignment, reference = corpus[shown].recording(), found[shown], references[shown]
seconds = np.arange(len(sound.samples)) / sound.rate
figure, (wave, heard) = plt.subplots(2, 1, figsize=(10, 5.2), sharex=True, height_ratios=[1, 1.8])
wave.plot(seconds, sound.samples, color="0.6", linewidth=0.5)
for phone in reference.phones:
    wave.axvline(phone.start, color="C1", linestyle="--", linewidth=1)
wave.set(ylabel="amplitude", title=f"“{' '.join(corpus[shown].words)}”; dashed: the true boundaries")
wave.grid(visible=False)
heard.specgram(sound.samples, NFFT=256, Fs=sound.rate, noverlap=192, cmap="Greys", vmin=-140, vmax=-50)
for phone, confidence in zip(alignment.phones, alignment.confidence or (), strict=True):
    heard.axvline(phone.start, color="C0", linewidth=1.2)
    middle = (phone.start + phone.end) / 2
    shade = "C0" if confidence >= 0.8 else "C3"
    heard.text(middle, 7400, phone.label, ha="center", va="center", fontsize=9, color="white",
               bbox={"boxstyle": "round,pad=0.15", "facecolor": shade, "edgecolor": "none"})  # fmt: skip
heard.set(xlabel="time (s)", ylabel="frequency (Hz)", ylim=(0, 8000), xlim=(0, sound.duration))
heard.set_title("The boundaries found; orange: confidence of the start below 0.8")
heard.grid(visible=False)
plt.show()
