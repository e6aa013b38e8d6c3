"""How alike two ideas are in words: which words stand for the same, and how many of them two ideas share.

Deliberately plain, so that a refusal can be explained: both texts become sets of words without filler, endings and
the field's synonyms, and the share of common words among all (Jaccard, 1901) is compared with a threshold that was
found on labelled pairs (`tests/samples/proposals/pairs.tsv`). Two things always make ideas differ, however alike
their words are: other numbers, and the opposite direction (raise and lower, add and remove).
"""

from __future__ import annotations

from collections.abc import Iterable

from autoresearch.core.regex import later

_WORD = later(r"[A-Z]{2,}(?![a-z])|[A-Za-z][a-z]*|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?%?")

_FILLER_TEXT = """
a an and are as at be because been before being but by can could do does during each every for from get gets give gives
had has have help helps how idea if in instead into is it its just keep let lets make makes may might more most much
must no nor not now of on one only or our over per rather run should so some such than that the their them then there
these they this those through to too training try tries under until use used uses using very via was we well what when
where which while who will with would model policy train trained change changes set sets based better improve improves
want needs need new current also both between about after
"""
_SYNONYM_TEXT = """
up increase raise higher larger bigger grow longer greater widen wider boost enlarge double
down decrease lower reduce smaller less shrink shorter cut narrow narrower halve tighten tighter
add introduce enable append insert include put attach apply
remove disable delete omit strip eliminate without skip drop off
normalise normalize standardise standardize whiten scale rescale normalisation normalization
length len size long token
answer response completion output generation rollout sample reply
prompt instruction question template query
penalty penalise penalize punish cost discourage
reward bonus score return credit
lr stepsize
filter discard exclude dedupe mask ignore prune
curriculum schedule anneal decay ramp warmup gradually
clip clamp bound cap truncate limit
entropy exploration explore diversity
kl divergence
weight reweight weighting coefficient coef factor
easy simple trivial solved
hard difficult tough
order sort arrange
average mean
std deviation stddev variance
format structure layout schema tag
"""
_FILLER = frozenset(_FILLER_TEXT.split())
_SYNONYMS = {word: line.split()[0] for line in _SYNONYM_TEXT.splitlines() for word in line.split()}
_OPPOSITES = (("up", "down"), ("add", "remove"), ("easy", "hard"), ("min", "max"))
_ENDINGS = ("ations", "ation", "ising", "izing", "ings", "ing", "edly", "ed", "ies", "es", "s", "ly")


def words_of(*texts: str) -> frozenset[str]:
    """The words that carry the meaning of an idea, numbers included."""
    found = set()
    for text in texts:
        for raw in _WORD.findall(text.replace("learning rate", "lr").replace("step size", "lr")):
            word = raw.lower()
            if not word[0].isdigit():
                word = _SYNONYMS.get(word) or _SYNONYMS.get(stem(word)) or stem(word)
            if word not in _FILLER and raw.lower() not in _FILLER and len(word) > 1:
                found.add(word)
    return frozenset(found)


def stem(word: str) -> str:
    """A word without its ending, where enough of it is left; crude, and the same for both sides."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)].rstrip("e") if ending != "s" else word[:-1].rstrip("e")
    return word.rstrip("e") if len(word) > 4 else word


def jaccard(a: Iterable[str], b: Iterable[str]) -> float:
    """Common members among all; 0 for two empty sets."""
    one, other = frozenset(a), frozenset(b)
    return len(one & other) / len(one | other) if one or other else 0.0


def opposed(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether the words say other numbers, or the opposite direction."""
    ours, theirs = _numbers(a), _numbers(b)
    if ours and theirs and not ours & theirs:
        return True
    return any(_apart(a, b, one, other) or _apart(b, a, one, other) for one, other in _OPPOSITES)


def _apart(a: frozenset[str], b: frozenset[str], one: str, other: str) -> bool:
    return one in a and other in b and other not in a and one not in b


def _numbers(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in words if word[0].isdigit())
