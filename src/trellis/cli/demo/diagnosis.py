"""A Bayesian network's answer, and why it changes: a shadow on the X-ray has two causes.

The network is that of Lauritzen and Spiegelhalter (1988), with the X-ray read straight from the two diseases.
"""

from __future__ import annotations

from trellis.bayesnet import BayesianNetwork, NetworkBuilder
from trellis.cli.demo.drawings import Row, bars, network
from trellis.cli.demo.story import Chapter, Picture, Printed, Table

_STEPS: tuple[tuple[str, dict[str, str]], ...] = (
    ("before any test", {}),
    ("a shadow on the X-ray", {"Shadow": "yes"}),
    ("and the patient smokes", {"Shadow": "yes", "Smoker": "yes"}),
    ("and tuberculosis is found", {"Shadow": "yes", "Smoker": "yes", "Tuberculosis": "yes"}),
)
_PLACES = {
    "Travel": (0.0, 0.0),
    "Smoker": (2.0, 0.0),
    "Tuberculosis": (0.0, 1.0),
    "Cancer": (1.5, 1.0),
    "Bronchitis": (3.0, 1.0),
    "Shadow": (0.75, 2.0),
}
_EDGES = (
    ("Travel", "Tuberculosis"),
    ("Smoker", "Cancer"),
    ("Smoker", "Bronchitis"),
    ("Tuberculosis", "Shadow"),
    ("Cancer", "Shadow"),
)


def clinic() -> BayesianNetwork:
    answer = ["yes", "no"]
    seen, unseen = [0.98, 0.02], [0.05, 0.95]
    shadow = {("yes", "yes"): seen, ("yes", "no"): seen, ("no", "yes"): seen, ("no", "no"): unseen}
    return (
        NetworkBuilder()
        .variable("Travel", answer, [0.01, 0.99])
        .variable("Smoker", answer, [0.5, 0.5])
        .variable("Tuberculosis", answer, {"yes": [0.05, 0.95], "no": [0.01, 0.99]}, given="Travel")
        .variable("Cancer", answer, {"yes": [0.1, 0.9], "no": [0.01, 0.99]}, given="Smoker")
        .variable("Bronchitis", answer, {"yes": [0.6, 0.4], "no": [0.3, 0.7]}, given="Smoker")
        .variable("Shadow", answer, shadow, given=["Tuberculosis", "Cancer"])
        .build()
    )


def tell() -> Chapter:
    net = clinic()
    chances = [(name, float(net.query("Cancer", evidence=evidence).values[0])) for name, evidence in _STEPS]
    rows = [Row(name, chance, chance, chance) for name, chance in chances]
    parts = (
        "A junction tree gives exact answers. The last piece of evidence is about another disease, and yet "
        "it changes the answer:",
        Table(
            "The chance of cancer", ("given", "per cent"), tuple((n, f"{100 * p:.1f}") for n, p in chances)
        ),
        "Why? The network explains which paths are open, without the X-ray and with it:",
        Printed(str(net.explain_separation("Cancer", "Tuberculosis"))),
        Printed(str(net.explain_separation("Cancer", "Tuberculosis", given=["Shadow"]))),
        "Once the shadow is seen, either disease explains it, and finding one makes the other less likely.",
        Picture(network(_PLACES, _EDGES, {"Shadow"}), "The network; the X-ray is observed."),
        Picture(
            bars([("chance of cancer", rows)], "chance of cancer", percent=True),
            "The answer, as evidence comes in.",
        ),
    )
    return Chapter("A network's answer, explained: two causes of a shadow", parts)
