"""Bulk LLM inference on your own vLLM servers: nothing lost, nothing asked twice. docs/python.md shows how.

    import fairwatch as fw

    reviews = fw.map(reviews, prompt="Classify: {{ text }}", choice=["good", "bad"], endpoints=["http://gpu1:8005/v1"])

All work is done by the program `fw`, which is inside this package, and which Node runs.
"""

from ._api import achain, amap, astream, chain, map, stream
from ._asking import Answer
from ._batch import abatch, batch
from ._records import Simulated, items, ledger, simulate
from .errors import AnswersFailed, FairwatchError, Failure, Stopped

__all__ = [
    "Answer",
    "AnswersFailed",
    "FairwatchError",
    "Failure",
    "Simulated",
    "Stopped",
    "abatch",
    "achain",
    "amap",
    "astream",
    "batch",
    "chain",
    "items",
    "ledger",
    "map",
    "simulate",
    "stream",
]
