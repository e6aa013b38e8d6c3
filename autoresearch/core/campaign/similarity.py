"""How similar two ideas are in words: synonyms are unified, then the share of common title words is computed.

Deliberately simple, so that a refusal can be explained: titles become sets of words without filler words, endings
and the field's synonyms. The share of common words (Jaccard index) is compared with a threshold that was tuned on
labelled pairs (`tests/samples/proposals/pairs.tsv`; adding the reasons to the titles did not improve it). Four things
make ideas different however many words they share: different numbers, opposite directions (raise and lower, never and
always), a negation in only one of them, and different RL quantities as their subject (KL and entropy).
"""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.text.regex import later

_WORD = later(r"[A-Z]{2,}(?![a-z])|[A-Za-z][a-z]*|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?%?")

_FILLER_TEXT = """
a an and are as at be because been before being but by can could do does during each every for from get gets give gives
had has have help helps how idea if in instead into is it its just keep let lets make makes may might more most much
must nor now of on one only or our out over per rather run should so some such than that the their them then there
these they this those through to too training try tries under until use used uses using very via was we well what when
where which while who will with would model policy train trained change changes set sets based better improve improves
want needs need new current also both between about after
"""
_SYNONYM_TEXT = """
up increase raise higher larger bigger grow greater widen wider boost enlarge double
down decrease lower reduce smaller less shrink cut narrow narrower halve tighten tighter
add introduce enable append insert include put attach apply
remove disable delete omit strip eliminate skip drop off
normalise normalize standardise standardize whiten scale rescale normalisation normalization
length len size long longer overlong token
short shorter
answer response completion output generation rollout sample reply
prompt instruction question template query
penalty penalise penalize punish cost discourage
reward bonus score return credit
lr stepsize
filter discard exclude deduplicate dedupe mask ignore prune
curriculum schedule anneal decay ramp warmup gradually
clip clamp bound cap truncate limit
entropy exploration explore diversity
kl divergence
weight reweight weighting coefficient coef factor
easy simple trivial
stop end halt finish
continue proceed go
hard difficult tough
order sort arrange
average mean
std deviation stddev variance
format structure layout schema tag
"""
_PHRASES = (("learning rate", "lr"), ("step size", "lr"), ("every time", "always"))
_OPPOSITE_TEXT = """
up down
add remove
easy hard
min max
never always
stop continue
first last
lower upper
before after
length short
"""
_DENIAL_TEXT = "not no never without dont nothing remove wrong fail"
_SUBJECT_TEXT = "kl entropy lr clip advantage loss reward prompt dropout"
_ENDINGS = ("ations", "ation", "ising", "izing", "ings", "ing", "edly", "ed", "ies", "es", "s", "ly")


@dataclass(frozen=True, slots=True)
class Words:
    """The parts of an idea's title that are compared: its words, opposites and negation."""

    title: frozenset[str] = frozenset()
    sides: tuple[str, ...] = ()  # words that have an opposite, in order of appearance
    denies: bool = False  # contains a negation: not, without, remove


def words_of(sentence: str) -> Words:
    """The words of a sentence `title: reason`; without a colon, all of it is the title."""
    title = sentence.partition(": ")[0]
    listed = _terms(title)
    return Words(
        title=meaning(title),
        sides=tuple(word for word in listed if word in _SIDES),
        denies=bool(_DENIALS & set(listed)),
    )


def meaning(text: str) -> frozenset[str]:
    """The set of meaningful words of a text, numbers included."""
    return frozenset(word for word in _terms(text) if word not in _FILLER and len(word) > 1)


def alike(a: Words, b: Words) -> float:
    """The share of common words, from 0 to 1; 0 if the ideas certainly differ."""
    if not (a.title or b.title) or _opposed(a, b):
        return 0.0
    return len(a.title & b.title) / len(a.title | b.title)


def _terms(text: str) -> list[str]:
    """The words of a text in order, each replaced by its canonical synonym."""
    found = []
    for words, one in _PHRASES:
        text = text.replace(words, one)
    for raw in _WORD.findall(text):
        word = raw.lower()
        found.append(word if word[0].isdigit() else _SYNONYMS.get(_stem(word), _stem(word)))
    return found


def _stem(word: str) -> str:
    """A word without its ending if at least 4 letters remain; crude, but applied to both sides alike."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)].rstrip("e")
    return word.rstrip("e") if len(word) > 4 else word


def _opposed(a: Words, b: Words) -> bool:
    ours, theirs = _numbers(a.title), _numbers(b.title)
    if (ours and theirs and not ours & theirs) or a.denies != b.denies:
        return True
    subjects = (a.title & _SUBJECTS, b.title & _SUBJECTS)
    if all(subjects) and not subjects[0] & subjects[1]:
        return True
    for pair in _OPPOSITES:
        sides = [tuple(word for word in words.sides if word in pair) for words in (a, b)]
        if all(sides) and sides[0][0] != sides[1][0]:
            return True
    return False


def _numbers(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in words if word[0].isdigit())


_SYNONYMS = {_stem(word): _stem(line.split()[0]) for line in _SYNONYM_TEXT.splitlines() for word in line.split()}
_FILLER = frozenset(_terms(_FILLER_TEXT)) - frozenset(_SYNONYMS.values())
_OPPOSITES = tuple(_terms(line) for line in _OPPOSITE_TEXT.splitlines())
_SIDES = frozenset(word for pair in _OPPOSITES for word in pair)
_DENIALS = frozenset(_terms(_DENIAL_TEXT))
_SUBJECTS = frozenset(_terms(_SUBJECT_TEXT))
