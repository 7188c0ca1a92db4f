"""Check the cells of docs/comparison.md by calls to the libraries that they speak of.

    python scripts/check_comparison.py

runs where those libraries are installed (`make test-peers` makes such an environment). It prints each library
with its version and how many of the claims about it hold, and ends with 1 if one does not, or if the page
names another version. What is not installed is named, and not checked.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).resolve().parent.parent / "docs" / "comparison.md"
Claim = Callable[[], bool]
CLAIMS: dict[str, list[tuple[str, Claim]]] = defaultdict(list)


def claim(package: str, words: str) -> Callable[[Claim], Claim]:
    """Register what the page says about a package."""

    def register(test: Claim) -> Claim:
        CLAIMS[package].append((words, test))
        return test

    return register


def has(module: str, names: str) -> bool:
    """Whether a module has all these names."""
    found = import_module(module)
    return all(hasattr(found, name) for name in names.split())


def public(thing: Any) -> set[str]:
    """The names that a class itself defines."""
    return {name for name in vars(thing) if not name.startswith("_")}


def none_like(names: Iterable[str], *parts: str) -> bool:
    return not any(part in name.lower() for name in names for part in parts)


def refuses(work: Callable[[], object]) -> bool:
    try:
        work()
    except ValueError:
        return True
    return False


ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")
GAP = np.array([[1.0], [np.nan], [2.0], [3.0], [1.0]])


# -- chains ----------------------------------------------------------------------------------------------


@claim("python-crfsuite", "log, perceptron, passive-aggressive, AROW; L1 and L2")
def _() -> bool:
    from pycrfsuite import Trainer

    trainers = {name: Trainer(algorithm=name, verbose=False) for name in ALGORITHMS}
    return {"c1", "c2"} <= set(trainers["lbfgs"].params()) and refuses(lambda: Trainer(algorithm="margin"))


@claim("python-crfsuite", "marginals, and neither k best nor constraints")
def _() -> bool:
    from pycrfsuite import Tagger, Trainer

    names = [*dir(Tagger), *dir(Trainer), *Trainer(verbose=False).params()]
    return "marginal" in names and none_like(names, "best", "constrain", "partial")


@claim("sklearn-crfsuite", "marginals, no k best")
def _() -> bool:
    from sklearn_crfsuite import CRF

    return "predict_marginals" in public(CRF) and none_like(public(CRF), "best")


@claim("pycrfpp", "the tagger of CRF++: k best and probabilities")
def _() -> bool:
    from pycrfpp import Tagger

    return {"set_nbest", "prob"} <= set(dir(Tagger)) and none_like(dir(import_module("pycrfpp")), "train")


@claim("pytorch-crf", "forward and decode, no other question")
def _() -> bool:
    from torchcrf import CRF

    return public(CRF) == {"forward", "decode", "reset_parameters"}


@claim("torch-struct", "partition, marginals, entropy, k best, samples")
def _() -> bool:
    import torch
    from torch_struct import LinearChainCRF

    chain = LinearChainCRF(torch.zeros(1, 3, 2, 2))
    uniform = float(chain.partition) - 4 * np.log(2)
    best, drawn = chain.topk(2), chain.sample((5,))
    return (
        abs(uniform) < 1e-5
        and len(best) == 2
        and len(drawn) == 5
        and abs(float(chain.entropy) - 4 * np.log(2)) < 1e-5
    )


@claim("torch-struct", "segments, dependency and constituency trees, alignments")
def _() -> bool:
    return has(
        "torch_struct", "SemiMarkovCRF DependencyCRF NonProjectiveDependencyCRF TreeCRF CKY_CRF AlignmentCRF"
    )


@claim("torch-struct", "no loss, no constraints")
def _() -> bool:
    from torch_struct import LinearChainCRF, StructDistribution

    names = (public(StructDistribution) | public(LinearChainCRF)) - {"arg_constraints"}  # of PyTorch
    return none_like(names, "loss", "hinge", "constrain", "partial")


@claim("sklearn-crfsuite", "the attributes and methods that the page for movers names")
def _() -> bool:
    from sklearn_crfsuite import CRF

    return {"state_features_", "transition_features_", "predict_marginals_single"} <= public(CRF)


# -- hidden Markov and state-space models ----------------------------------------------------------------


@claim("hmmlearn", "five kinds of emissions; variational Bayes for two")
def _() -> bool:
    kinds = "CategoricalHMM MultinomialHMM PoissonHMM GaussianHMM GMMHMM"
    return has("hmmlearn.hmm", kinds) and has(
        "hmmlearn.vhmm", "VariationalCategoricalHMM VariationalGaussianHMM"
    )


@claim("hmmlearn", "the parameters that the page for movers names")
def _() -> bool:
    from hmmlearn.hmm import GaussianHMM

    names = "startprob_prior transmat_prior params init_params implementation covariance_type means_prior "
    names += "means_weight covars_prior covars_weight"
    return set(names.split()) <= set(GaussianHMM().get_params())


@claim("hmmlearn", "no missing values")
def _() -> bool:
    from hmmlearn.hmm import GaussianHMM

    return refuses(lambda: GaussianHMM(2).fit(GAP))


@claim("dynamax", "emissions; extended and unscented filters; switching models")
def _() -> bool:
    kinds = "CategoricalHMM MultinomialHMM PoissonHMM GaussianHMM GaussianMixtureHMM BernoulliHMM GammaHMM "
    kinds += "LinearRegressionHMM LinearAutoregressiveHMM"
    filters = "extended_kalman_filter unscented_kalman_filter"
    return (
        has("dynamax.hidden_markov_model", kinds)
        and has("dynamax.nonlinear_gaussian_ssm", filters)
        and has("dynamax.slds", "SLDS")
    )


@claim("dynamax", "EM and gradient descent, with inputs")
def _() -> bool:
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    return all("inputs" in getattr(LinearGaussianSSM, name).__annotations__ for name in ("fit_em", "fit_sgd"))


@claim("dynamax", "missing values make the likelihood NaN")
def _() -> bool:
    import jax
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    model = LinearGaussianSSM(1, 1)
    parameters, _properties = model.initialize(jax.random.PRNGKey(0))
    return bool(np.isnan(model.filter(parameters, jax.numpy.asarray(GAP)).marginal_loglik))


@claim("pykalman", "EM, masked arrays, offsets, unscented filter")
def _() -> bool:
    from pykalman import KalmanFilter

    means, _covariances = (
        KalmanFilter(transition_offsets=[0.1])
        .em(np.ma.masked_invalid(GAP), n_iter=2)
        .smooth(np.ma.masked_invalid(GAP))
    )
    return bool(np.isfinite(means).all()) and has("pykalman", "UnscentedKalmanFilter")


@claim("statsmodels", "missing values and exogenous variables in a state-space model; switching regression")
def _() -> bool:
    import statsmodels.api as sm

    inputs = np.arange(5.0)
    model = sm.tsa.UnobservedComponents(GAP[:, 0], "local level", exog=inputs).fit(disp=0)
    return bool(np.isfinite(model.llf)) and has(
        "statsmodels.tsa.api", "SARIMAX VARMAX DynamicFactor MarkovRegression"
    )


# -- Bayesian networks -----------------------------------------------------------------------------------


@claim("statsmodels", "the methods that the page for movers names")
def _() -> bool:
    from statsmodels.tsa.statespace.mlemodel import MLEModel, MLEResults

    return {"filter", "smooth"} <= set(dir(MLEModel)) and "forecast" in dir(MLEResults)


@claim("pgmpy", "exact and approximate inference")
def _() -> bool:
    return has("pgmpy.inference", "VariableElimination BeliefPropagation Mplp ApproxInference") and has(
        "pgmpy.sampling", "BayesianModelSampling GibbsSampling"
    )


@claim("pgmpy", "learning of parameters and structure")
def _() -> bool:
    return has(
        "pgmpy.estimators", "MaximumLikelihoodEstimator BayesianEstimator ExpectationMaximization"
    ) and has("pgmpy.causal_discovery", "PC GES HillClimbSearch")


@claim("pgmpy", "formats, causal inference, dynamic networks")
def _() -> bool:
    readers = "BIFReader UAIReader XMLBIFReader XDSLReader NETReader"
    return has("pgmpy.readwrite", readers) and has("pgmpy.inference", "CausalInference DBNInference")


@claim("pgmpy", "the methods that the page for movers names")
def _() -> bool:
    from pgmpy.models import DiscreteBayesianNetwork

    names = "predict predict_probability simulate is_dconnected get_markov_blanket get_independencies "
    return set((names + "minimal_dseparator").split()) <= set(dir(DiscreteBayesianNetwork))


@claim("pyagrum", "exact and approximate inference, learning")
def _() -> bool:
    exact, loopy = "LazyPropagation ShaferShenoyInference VariableElimination", "LoopyBeliefPropagation"
    drawn = "GibbsSampling ImportanceSampling WeightedSampling LoopyGibbsSampling LoopyWeightedSampling"
    return has("pyagrum", f"{exact} {loopy} {drawn} BNLearner BNDatabaseGenerator")


@claim("pyagrum", "formats")
def _() -> bool:
    from pyagrum import availableBNExts

    return {"bif", "uai", "net", "dsl", "xdsl", "bifxml", "o3prm"} <= set(availableBNExts().split("|"))


@claim("pyagrum", "influence diagrams, credal networks, causal identification")
def _() -> bool:
    return (
        has("pyagrum.causal_model", "CausalModel causalImpact")
        and has("pyagrum.influence_diagram", "InfluenceDiagram")
        and has("pyagrum.credal_net", "CredalNet")
    )


@claim("pyagrum", "the methods that the page for movers names")
def _() -> bool:
    import pyagrum

    learning = {"learnParameters", "useSmoothingPrior", "useEM"} <= set(dir(pyagrum.BNLearner))
    asking = "setEvidence makeInference posterior addJointTarget jointPosterior evidenceProbability mpe"
    found = set(asking.split()) <= set(dir(pyagrum.LazyPropagation))
    return learning and found and {"isIndependent", "moralGraph"} <= set(dir(pyagrum.BayesNet))


def main() -> int:
    page, failed = PAGE.read_text(encoding="utf-8"), 0
    for package, claims in CLAIMS.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            print(f"{package}: not installed, {len(claims)} claims not checked")
            continue
        wrong = [words for words, test in claims if not _holds(test)]
        named = re.search(rf"\b{re.escape(package)} (\d[\w.]*\w)", page, re.IGNORECASE)
        if named is None or named[1] != installed:
            wrong.append(f"the page names version {named and named[1]}")
        failed += len(wrong)
        print(
            f"{package} {installed}: {len(claims)} claims" + "".join(f"; does not hold: {w}" for w in wrong)
        )
    return int(failed > 0)


def _holds(test: Claim) -> bool:
    with warnings.catch_warnings(action="ignore"):
        try:
            return test()
        except (ImportError, AttributeError) as error:
            print(error)
            return False


if __name__ == "__main__":
    sys.exit(main())
