"""Reads one line of a log as metrics, whatever program printed it: `iter 100 | loss 0.5`, `{'loss': 0.5}`, a tqdm bar.

A line is split into tokens once, and a name takes the number that follows it, with or without a colon or an equals
sign between them. What a line may look like is listed, with real output, in tests/samples/formats. Which lines of a
log carry the steps is decided by `step_finder`, which sees all of them.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from .basics import LazyPattern
from .dashed_pairs import dashed_pairs
from .text import LABEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LONGEST = 20_000  # characters; a longer line carries no metrics
_MOST_WORDS = 5  # of one name before a colon or an equals sign: `elapsed time per iteration (ms)`
_MOST_PLAIN_WORDS = 8  # ... if none of them belongs to prose: `average undiscounted return per evaluation episode`
_PROSE_FROM = 400  # characters of a line of which the words are counted: more than its numbers need are prose
_FEW_WORDS = 2  # of one name before a number: `val loss 4.3`
_PROSE = frozenset(
    "a an and are at but by for from in is its of on or so than that the then this to was we with".split()
)
_QUALIFIERS = frozenset("train training val valid validation eval test dev mean avg average total best".split())
_HELD_OUT = frozenset("val valid validation eval test dev".split())

# Words that name a step, the finest first: a step of an earlier group is preferred, and within one the larger number.
_STEPS = (
    "step steps iteration iterations iter iters it itr up update updates num_updates n_updates num_steps trainer_step "
    "gradient_step optimizer_step timestep timesteps frame frames num_timesteps total_timesteps timesteps_total "
    "env_steps num_env_steps num_env_steps_sampled_lifetime",
    "episode episodes round rounds generation generations gen rollout training_iteration batch",
    "epoch epochs ep",
)
RANK = {word: rank for rank, words in enumerate(_STEPS) for word in words.split()}
BAR = "n/total"  # the step of a progress bar, or of `[3/10]`
LEADING = "[n]"  # of a line that begins with its number, as XGBoost's and CatBoost's do; srun's label does not grow
NUMBER = "#"  # of a column, as spaCy's; it may count the rows of a leaderboard
RANK[BAR] = RANK[LEADING] = RANK[NUMBER] = len(_STEPS)
_STEP_ENDS = ("_step", "_steps", "_iter", "_iteration", "_timesteps", "_episode", "_epoch", "_update", "_generation")
_NO_STEPS = (
    *("warmup", "max_", "total_step", "total_train", "total_iter", "total_ep", "save_", "eval_", "log", "fps_"),
)  # settings, and a rate
_UNITS = frozenset("s sec secs seconds ms us mins minutes h hr hrs hours percent".split())  # `min` is a minimum, too

_KNOWN = LazyPattern(
    r"loss|reward|return|acc(?:uracy)?(?![a-z])|score|kl(?![a-z])|^cost|entropy|grad|norm|perplexity|ppl|bpb|bpc|error|"
    r"(?<![a-z])(?:val|eval|valid|test|mse|mae|rmse|f1|auc|bleu|elo|iou|err|r2|nll|ce)(?![a-z])|success|pass|win|"
    r"fitness|objective|advantage|regret|ep_len|len_mean|(?<![a-z])map(?![a-z])|psnr|ssim|lpips|fid(?![a-z])|"
    r"(?<![a-z])(?:wer|cer|dice|mrr|ndcg|rouge|recall|[pr]@)",
    re.I,
)
_VALIDATION = LazyPattern(r"(?:val|eval|valid|validation|test)(?:[-_/. ]|$)", re.I)
_SETTING = LazyPattern(
    r"(?:interval|iters?|steps?|every|size|freq|frequency|seed|episodes?|workers|split|only|first)$", re.I
)
_ARITHMETIC = LazyPattern(r"\d\s*[+*\u00d7\u00f7^]\s*[\d(]")
_REPR = LazyPattern(r"[A-Za-z_]\w*\([A-Za-z_]\w*=")  # Namespace(step=10, ...): settings, or a result printed above
_TRACE = LazyPattern(r"\s*\++ |wandb: ")  # set -x, diffs, and W&B's summary, which rounds what was logged before

_PREFIXES = LazyPattern(
    r"\s*(?:"
    rf"{LABEL}"
    r"|\[\d{4}-\d\d-\d\d (?![^\]]*(?:step|iter|epoch))[^\]]{1,120}\]"  # [2021-04-12 13:40:59 train.py line 9]
    r"|\[?\d{4}[-/]\d\d[-/]\d\d(?:[T ,]+\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?\]?"
    r"|\[?\d\d?:\d\d:\d\d(?:[.,]\d+)?(?:\s?[AP]M)?\]?"
    r"|[IWED]\d{4} \d\d:\d\d:\d\d(?:\.\d+)?\s+\d+(?: [\w./-]+:\d+\])?"  # glog
    r"|\[?(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|TRACE)\b\]?:?"
    r"|(?:[IWEF] |\()?[\w./<>-]+\.(?:py|cc|cpp|cu|h)[: ]\d+[\])]?:?"  # file.py:12
    r"|[A-Za-z_][\w.]*:[\w<>.]+:\d+"  # loguru's module:function:line
    r"|\([a-z]\w*:\d+\)(?=\s[A-Z]+:)"  # (trainer:243) INFO:
    r"|\d\d-\d\d \d\d:\d\d:\d\d"
    r"|\[[A-Za-z_][\w.:-]{0,60}\](?=\s)|[a-z_][\w]*(?:\.\w+)+(?=\s-|:)"  # [logger], package.logger
    r"|[-:|\u2022\u25cf*>=#\u2728]+(?=\s|$)|->|=>|\u2192"
    r")\s*"
)
_MOST_PREFIXES = 10

_LEADING = LazyPattern(r"\[(?P<n>\d{1,9})\]\s+|(?P<m>\d{1,9})(?::\s+|\s*(?:->|=>)\s*)")
_WINDOW = LazyPattern(  # of a mean: `reward over the last 9 episodes: 3`, `score (last 10): 3`, `loss of 7 batches: 3`
    r"\s*\(?\b(?:(?:(?:over|of|in|for) )?(?:the )?(?:last|past|previous) \d+(?: [a-z]+)?|(?:over|of) \d+ [a-z]+)"
    r"(?:\)|(?=\s*[:=]|\s+(?:is|was)\b))",
    re.I,
)
_WRAPPED = LazyPattern(r"\b(?:(?:np|numpy|torch)\.\w{1,12}|tensor|array)\(\[?([-+.\w]{1,32})\]?(?:,[^()]{0,60})?\)")
_BAR = LazyPattern(
    r"(?P<title>[^|\r\n]{0,200}?):?\s*(?:\d{1,3}%)?\|[^|\n]{0,640}\|\s*(?P<n>\d{1,15})/(?P<total>\d{1,15})\s*"
    r"\[(?P<rest>[^\n]*?)\]?\s*$"
)
_SHARE = LazyPattern(r"(\d{1,12})/(\d{1,12})\Z")  # ms-swift: 'global_step/max_steps': '5/60'
_SPACED = LazyPattern(r"(, [a-z]+) (?=[a-z_]+=)")  # OpenRLHF: [00:10<00:00, eval gpt_loss=1.05]
_BAR_TIME = LazyPattern(r"[\d:?]+<[^,\]]*,[^,\]]*,?\s*")
_TOKEN = LazyPattern(
    r"""
    (?P<text>"(?:[^"\\]|\\.)*"|(?<!\w)'(?:[^'\\]|\\.)*')
  | (?P<junk>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d[\d.,:+Z-]*)?
           | \d+:\d\d(?::\d\d)?(?:[.,]\d+)?(?!\d) | \d+(?:\.\d+){2,}[\w.+-]*
           | 0[xX][0-9a-fA-F]+ | (?![1-9]\d{0,2}(?:,\d{3})+(?![\d,]))\d+(?:,\d+)+
           | https?://\S+ | (?<!\w)\.{0,2}/[\w./-]+ )
  | (?P<number>(?<![\w.])[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+(?![\d,])(?:\.\d+)?
           | \d+\.\d+f[-+]?\d+ | \d+\.?\d*(?:[eE][-+]?\d+)? | \.\d+(?:[eE][-+]?\d+)?
           | (?i:nan|inf|infinity)(?![\w/.-]) ))
    (?P<unit>%|[A-Za-z\u00b5\u03bc][\w%]*(?:/[A-Za-z]\w*)?)?
  | (?P<word>[^\W\d][\w.@%#*+$-]{0,200}(?:/[\w.@%#*+$-]{1,200}){0,20}(?<![.-]))
  | (?P<sign>->|=>|\u2192|[:=,;|{}\[\]()\t/\u2502\u2503] | (?<!-)-{1,400}(?=\s|$) | \s{3,})
  | (?P<other>\S)
""",
    re.X,
)
_NUMBER = LazyPattern(r"(?<![\w.@/#%*$+-])([-+]?\d(?:[\d.,:eE+-]*\d)?)")  # that may differ between lines of one kind
_QUOTED_NAME = LazyPattern(r"[^\W\d][\w.@%#*+/ ()-]{0,80}\Z")
_LITERALS = frozenset(["true", "false", "none", "null"])
_MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6}


class ParsedLine:
    """The pairs of one line.

    `steps`: every number that may be the step, by name, as (value, total); `total` is 0 where none is named.
    `metrics`: the other pairs. `bare`: whether the line consists of its pairs, and is no prose around a number.
    `dump`: whether it is a whole dict, JSON object or list of pairs, which is printed on purpose. `heading`: "test/" of
    `Test set: loss 0.5`, whose loss is not the one that is trained.
    """

    __slots__ = ("bare", "dump", "empty", "heading", "metrics", "quoted", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, tuple[int, int]] = {}
        self.metrics: dict[str, float] = {}
        self.bare = True
        self.dump = False
        self.heading = ""
        self.quoted = False
        self.empty: list[str] = []  # names in quotes whose value is None

    def add(self, name: str, value: float, total: int = 0) -> None:
        """Add a pair; the first of two with one name counts, as what follows is often a running mean."""
        if is_count(value) and step_rank(name) is not None:
            self.steps.setdefault(name, (int(value), total))
        else:
            self.metrics.setdefault(name, value)

    def rename(self, name: str) -> None:
        """Give its only pair another name."""
        self.steps = {name: pair for pair in self.steps.values()}  # noqa: B035
        self.metrics = {name: value for value in self.metrics.values()}  # noqa: B035


@lru_cache(maxsize=1 << 13)
def step_rank(name: str) -> int | None:
    """How fine a step this name stands for, 0 the finest; None if it names none."""
    if name in RANK:
        return RANK[name]
    if name.endswith("/max_steps"):
        name = name[:-10]
    word = re.split(r"[/.]", name.lower())[-1]
    if word in RANK:
        return RANK[word]
    if word.endswith(_STEP_ENDS) and not word.startswith(_NO_STEPS) and "_per_" not in word:
        return RANK.get(word.rsplit("_", 1)[-1], 0)
    return None


@lru_cache(maxsize=1 << 13)
def known_metric(name: str) -> bool:
    """Whether a name is one that training programs use for a metric."""
    return bool(_KNOWN.search(name))


@lru_cache(maxsize=1 << 13)
def is_validation(name: str) -> bool:
    """Whether a name says that it was measured on held-out data."""
    if _SETTING.search(name):
        return False
    return bool(_VALIDATION.match(name.rsplit("/", 1)[-1]) or _VALIDATION.match(name))


@lru_cache(maxsize=1 << 13)
def same_name(name: str) -> str:
    """A name as it is compared: without case and without what separates its words."""
    return re.sub(r"[\W_]+", "", name.casefold())


def body(text: str) -> str:
    """A line without what loggers and launchers put before it: time, level, rank, process, file."""
    for _ in range(_MOST_PREFIXES):
        found = _PREFIXES.match(text)
        if found is None or found.end() == 0 or found.end() == len(text):
            break
        text = text[found.end() :]
    return text.strip()


def parse(text: str) -> ParsedLine | None:
    """The pairs of a line without its prefixes; None if it has none, and is no long prose either."""
    if not text or len(text) > LONGEST or "....." in text:  # dots lead from an option to its value
        return None
    if "@[" in text:  # pycocotools: `Average Recall (AR) @[ IoU=0.50:0.95 | area= all | maxDets=100 ] = 0.5`
        return None
    if _TRACE.match(text):
        return None
    if "(" in text and ("np." in text or "tensor(" in text or "array(" in text or "torch." in text):
        text = _WRAPPED.sub(r"\1", text)
    if "(" in text and _REPR.search(text):
        return None
    if " last " in text or "(last " in text or " over " in text or " of " in text:
        text = _WINDOW.sub("", text)
    line = ParsedLine()
    bar = _BAR.match(text) if "[" in text and "|" in text else None
    if bar is not None:
        rest = _SPACED.sub(r"\1_", bar["rest"])
        time = _BAR_TIME.match(rest)
        _pairs(bar["title"], line)
        line.metrics.clear()
        line.bare = True
        _pairs(rest[time.end() :] if time else "", line)
        line.steps.setdefault(BAR, (int(bar["n"]), int(bar["total"])))
        return line if line.metrics else None
    leading = _LEADING.match(text)
    if leading:
        text = body(text[leading.end() :])
    line.dump = (text.endswith("}") and "{" in text) or (text.endswith(")]") and "[(" in text)
    _pairs(text, line)
    if leading and not line.steps:
        line.steps[LEADING] = (int(leading["n"] or leading["m"]), 0)
    line.bare = line.bare and not _ARITHMETIC.search(text)
    if "train_runtime" in line.metrics:  # Hugging Face's summary at the end, whose values are those of no step
        return None
    prose = not line.bare and len(text) > _PROSE_FROM  # in which a declared metric may stand
    return line if line.steps or line.metrics or prose else None


def metrics_of(text: str) -> Mapping[str, float]:
    """All pairs of a text that is known to hold some, with those that name a step; NaN where a quoted name has None.
    """
    if text.startswith(" - "):
        return dashed_pairs(text)
    line = parse(text)
    if line is None:
        return {}
    steps = {name: float(value) for name, (value, total) in line.steps.items() if name != BAR and not total}
    return {**dict.fromkeys(line.empty, math.nan), **line.metrics, **steps}


class _PairReader:
    """Goes through the tokens of a text once, and notes where its pairs are."""

    def __init__(self, tokens: Sequence[re.Match[str]]) -> None:
        self.tokens = tokens
        self.pairs: dict[str, tuple[int, int]] = {}  # name -> number of the token of its value, of its total or -1
        self.percents: set[str] = set()  # names of shares that are also printed as such: `accuracy: 9/10 (90%)`
        self.shares: list[tuple[int, int]] = []  # `3/10` without a name
        self.heads: set[str] = set()  # names before a dict: `eval 3: {`
        self.words: list[str] = []  # that may name the next number
        self.subject: list[str] = []  # `loss` of `loss at step 3`
        self.explicit = False  # whether a colon or an equals sign followed them
        self.best = False  # whether what follows are the best values so far: `best model, loss: 0.5`
        self.above: list[str] = []  # names of the dicts around
        self.section: str | None = None  # `valid` of `[train] loss=0.5 [valid] loss=0.6`
        self.depth = 0  # open brackets of all kinds
        self.braces = 0
        self.quoted = False
        self.list_of = ""  # the name whose value is a list so far
        self.counted = False  # whether a whole number stood between a name and its value
        self.empty: list[str] = []  # names whose value is None
        self.lost = 0  # words that name nothing
        self.at = 0
        self.unnamed = self.valued = -2  # the last number without a name, and the last with one
        kinds = {"text": self._text, "word": self._word, "number": self._number, "sign": self._sign}
        kinds["unit"] = self._number
        while self.at < len(tokens):
            token = tokens[self.at]
            kinds.get(token.lastgroup or "", self._other)(token)
            self.at += 1
        self.lost += len(self.words) if self.depth == 0 else 0

    @property
    def bare(self) -> bool:
        return self.lost <= max(2, len(self.pairs))

    @property
    def torn(self) -> bool:
        """Whether the line ends within a dict."""
        return bool(self.braces) and self.quoted

    def read(self, pairs: ParsedLine) -> None:
        """Add the pairs to a line."""
        tokens = self.tokens
        pairs.bare = self.bare
        pairs.quoted = self.quoted
        if self.torn:
            return
        pairs.empty = self.empty
        for name, (at, of) in self.pairs.items():
            value, total = _value(tokens[at])
            if value is None:
                continue
            total = _count(tokens[of]) if of >= 0 else total
            if name in self.percents:
                pairs.add(name, 100 * value / total if total else math.nan)
            elif name in self.heads and is_count(value):
                pairs.steps.setdefault(name, (int(value), total))
            else:
                pairs.add(name, value, total)
        for at, of in self.shares:
            pairs.steps.setdefault(BAR, (_count(tokens[at]), _count(tokens[of])))

    def _ahead(self, n: int) -> str:
        return self.tokens[self.at + n][0] if 0 <= self.at + n < len(self.tokens) else ""

    def _number_ahead(self, n: int) -> bool:
        return self.at + n < len(self.tokens) and bool(self.tokens[self.at + n]["number"])

    def _clear(self) -> None:
        self.words = []
        self.explicit = False

    def _key(self) -> str:
        words = ["best", *self.words] if self.best else self.words
        return "/".join([*filter(None, (self.section, *self.above)), "_".join(words).strip("_:")])

    def _named(self) -> bool:
        """Whether the words name a number, rather than being a sentence in which one stands."""
        if self.explicit:
            most = _MOST_WORDS if len(self.words) <= _MOST_WORDS or self._prose() else _MOST_PLAIN_WORDS
            return 0 < len(self.words) <= most
        told = len(self.words) > _FEW_WORDS or (len(self.words) > 1 and self._prose())
        if told and step_rank(self.words[-1]) is not None:
            self.subject = self.words[:-2]  # `Validation at step 100:`, `reward: 0.5 at episode 3`
            del self.words[:-1]
        few = sum(word.lower() not in _QUALIFIERS for word in self.words)  # `mean training accuracy 0.5`
        return 0 < len(self.words) <= _MOST_WORDS and few <= _FEW_WORDS and not self._prose()

    def _of_the_best(self) -> bool:
        """Whether this is the step at which the best value was seen: `best loss 0.5 at epoch 3`."""
        told = not self.explicit and step_rank(self.words[-1]) is not None
        return told and bool(self.pairs) and next(reversed(self.pairs))[:4].lower() == "best"

    def _name_ends(self) -> None:
        """A number follows that belongs to the words so far, or to those before the step: `loss at step 3: 0.5`."""
        if not self.words and self.at == self.valued + 1 and self._number_ahead(1):
            self.words = self.subject
        self.explicit = bool(self.words)

    def _prose(self) -> bool:
        return any(word.lower() in _PROSE for word in self.words)

    def _text(self, token: re.Match[str]) -> None:
        """A quoted text: a key, a number, a share such as '5/60', or any other value."""
        self.quoted = True
        inner = token[0][1:-1]
        if not self.explicit or self._ahead(-1) == "(":
            self.explicit = False
            self.words = [inner] if _QUOTED_NAME.match(inner) else self.words
            return
        if self.words and (_float(inner) is not None or _SHARE.match(inner)):
            self.pairs.setdefault(self._key(), (self.at, -1))
        self._clear()

    def _word(self, token: re.Match[str]) -> None:
        if self.depth == 0:
            self.list_of = ""
        if self.at == self.unnamed + 1 and (len(token[0]) < 5 or "/" in token[0]):  # `12345.6 ex/s`
            return
        if self.at == self.valued + 1 and token[0].lower() in _UNITS and self._ahead(1) not in ("=", ":"):
            if not self._number_ahead(1):  # `33.9 s Mean Reward: 1.2`, but not `loss 0.5 min 0.1 max 0.9`
                return
        if token[0] in ("is", "was") and self._number_ahead(1):
            self._name_ends()
            return
        if not self.explicit:
            self.words.append(token[0])
            return
        if self.quoted and token[0] == "None" and self.words:
            self.empty.append(self._key())
        self.lost += not self.quoted and token[0].lower() not in _LITERALS  # `key: word`
        self._clear()
        named = step_rank(token[0]) is not None or known_metric(token[0])  # `trainer: epoch 3`, `done: loss 0.5`
        if named or token[0].lower() in _QUALIFIERS or self._number_ahead(1):  # `Evaluating test: L1 0.03`
            self.words.append(token[0])

    def _number(self, token: re.Match[str]) -> None:
        raw = token["number"]
        if not self.explicit and raw[-1] in "nNfFyY" and self._ahead(1) and self.tokens[self.at + 1]["word"]:
            self.words.append(raw)  # `number of nan iterations: 0`
            return
        total = self.at + 2 if self._ahead(1) == "/" and self._number_ahead(2) else -1
        previous = next((token[0] for token in self.tokens[: self.at][:-3:-1] if token[0].strip()), "")
        shown = previous == "(" and self.at == self.valued + 2  # `accuracy: 55% (55/100)`
        ahead = 1 + (self._ahead(1) in (":", "="))
        if not self.explicit and raw.isdecimal() and total < 0 and self._number_ahead(ahead):
            if "." in self._ahead(ahead) and step_rank(self._key()) is None and known_metric(self._key()):
                self.counted = True
                return  # `Train loss 7 0.52`, `Validation loss 7: 0.52`: it is the second one's name
        if previous == "#" and self.words and step_rank(self.words[-1]) is None:  # `output #0: accuracy = 0.5`
            return
        if total >= 0 and previous == "[" and self.words and step_rank(self._key()) is None:
            self.shares.append((self.at, total))  # `Test: [30/100] loss 0.5`
        elif self._named() and not self._of_the_best():
            key = self._key()
            if total >= 0 and self._ahead(3) == "(" and self._ahead(4).endswith("%") and step_rank(key) is None:
                self.percents.add(key)
            if self._ahead(1) == ":" and self._ahead(2) == "{":
                self.heads.add(key)
            self.pairs.setdefault(key, (self.at, total))
            self.valued = self.at + (2 if total >= 0 else 0)
            self.list_of = key if previous == "[" else ""
        elif self.words:
            self.lost += len(self.words)
            self.unnamed = self.at
        elif self.list_of and previous == ",":  # a list is no metric
            self.pairs.pop(self.list_of, None)
        elif total >= 0 and not token["unit"] and not self.tokens[total]["unit"] and not shown:
            self.shares.append((self.at, total))
        elif raw.isdecimal() and token["unit"] in RANK:
            self.pairs.setdefault(token["unit"], (self.at, -1))  # `7epoch results: ...`
        else:
            self.unnamed = self.at
        self.at += 2 if total >= 0 else 0
        self._clear()

    def _sign(self, token: re.Match[str]) -> None:
        sign = token[0].strip()
        if sign in (":", "=", "->", "=>", "\u2192"):
            self._name_ends()
            if sign == "=" and self.at and self.tokens[self.at - 1].end() == token.start():  # `level=info step=5`
                del self.words[: -1 - (self.words[-2:-1] != [] and self.words[-2].lower() in _QUALIFIERS)]
        elif sign in ("{", "[", "("):
            self._open(sign, token)
        elif sign in ("}", "]", ")"):
            self._shut(sign)
        elif sign == "," and self._ahead(-2) == "(" and self._number_ahead(1) and self.words and self.quoted:
            self.explicit = True  # a list of pairs: [('loss', 0.5)]
        elif sign not in ("", "/"):  # a comma, a bar, a dash: the next pair begins
            self.best = self.best or (sign == "," and "best" in (self._ahead(-1).lower(), self._ahead(-2).lower()))
            self.lost += len(self.words) if not self.explicit and self.depth == 0 else 0
            self._clear()

    def _open(self, sign: str, token: re.Match[str]) -> None:
        inner = self._ahead(1).lower() if sign == "[" and self._ahead(2) == "]" else ""
        if inner == "train" or (self.section is not None and inner in _HELD_OUT):
            self.section = inner if inner in _HELD_OUT else ""
            self.at += 2
            self._clear()
            return
        if sign == "{":
            self.above.append("_".join(self.words) if self.braces else "")
            self.braces += 1
            self.lost += len(self.words) if not self.explicit else 0
            self._clear()
        elif self.words and not self.explicit:
            closing = next((n for n in range(1, 8) if self._ahead(n) == ")"), 0) if sign == "(" else 0
            numbers = any(map(self._number_ahead, range(1, closing)))
            if closing and (self._ahead(closing + 1) in (":", "=") or (closing < 4 and not numbers)):
                self.at += closing  # `time (ms) 3`, `loss(data[1]) = 0.5`
                return
            indexed = sign == "[" and self.tokens[self.at - 1].end() == token.start()
            if indexed and step_rank(self.words[-1]) is None:  # `test_loss[0]`
                self._clear()
                self.lost += 1
        self.depth += 1

    def _shut(self, sign: str) -> None:
        self.depth = max(0, self.depth - 1)
        self.list_of = ""
        if sign == "}":
            del self.above[-1:]
            self.braces -= 1
        if sign == "}" or not self.explicit:
            self._clear()

    def _other(self, token: re.Match[str]) -> None:
        if token[0] in ("!", "?"):
            self.lost += 2
        elif token.lastgroup == "junk":
            self._clear()


class _Plan:
    """Where the pairs are in lines that differ in their numbers alone."""

    __slots__ = ("bare", "empty", "pairs", "percents", "quoted", "shares")

    def __init__(self, pair_reader: _PairReader, number_of: Mapping[int, int]) -> None:
        """number_of: which of the line's numbers a token is. Tokens that are none have the same text in each line."""
        self.bare = pair_reader.bare
        self.quoted = pair_reader.quoted
        self.empty = [] if pair_reader.torn else pair_reader.empty

        def source(at: int) -> tuple[int, float]:
            """Which number, and its factor; or -1, and the value."""
            if at < 0:
                return -1, 0.0
            token = pair_reader.tokens[at]
            if at not in number_of:
                value = _value(token)[0]
                return -1, math.nan if value is None else value
            return number_of[at], _MULTIPLES.get(token["unit"] or "", 1.0)

        self.percents = pair_reader.percents
        self.pairs = [
            (name, *source(at), source(of), name in pair_reader.heads or step_rank(name) is not None)
            for name, (at, of) in ({} if pair_reader.torn else pair_reader.pairs).items()
        ]
        self.shares = [(source(at), source(of)) for at, of in pair_reader.shares]

    def read(self, numbers: Sequence[float], pairs: ParsedLine) -> None:
        """Add the pairs of a line with these numbers."""
        pairs.bare, pairs.quoted, pairs.empty = self.bare, self.quoted, self.empty
        steps, metrics = pairs.steps, pairs.metrics
        for name, at, factor, total, counts in self.pairs:
            value = numbers[at] * factor if at >= 0 else factor
            if name in self.percents:
                of = _whole(total, numbers)
                metrics.setdefault(name, 100 * value / of if of else math.nan)
            elif counts and is_count(value):
                steps.setdefault(name, (int(value), _whole(total, numbers)))
            else:
                metrics.setdefault(name, value)
        for one, total in self.shares:
            steps.setdefault(BAR, (_whole(one, numbers), _whole(total, numbers)))


def _whole(source: tuple[int, float], numbers: Sequence[float]) -> int:
    value = numbers[source[0]] * source[1] if source[0] >= 0 else source[1]
    return int(value) if 0 <= value < 1 << 53 else 0


_plans: dict[tuple[str, ...], _Plan | None] = {}  # by a line's text between its numbers
_MOST_PLANS = 512


def _pairs(text: str, pairs: ParsedLine) -> None:
    """Add the pairs of a text to a line. The first line of its kind is read token by token, the others by a plan."""
    pieces = _NUMBER.split(text)
    if len(text) > _PROSE_FROM and len(text.split()) > _MOST_PLAIN_WORDS * (len(pieces) + 1):
        if "{" not in text and '"' not in text:  # in quotes may stand anything
            pairs.bare = False
            return
    between = tuple(pieces[::2])
    plan = _plans.get(between)
    if plan is not None:
        try:
            plan.read([float(number) for number in pieces[1::2]], pairs)
            return
        except ValueError:  # 1,200 or 12:30:01
            pass
    reader = _PairReader(list(_TOKEN.finditer(text)))
    if plan is None and between not in _plans:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        number_of = _numbers_of(pieces, reader.tokens)
        _plans[between] = None if number_of is None or reader.counted else _Plan(reader, number_of)
    reader.read(pairs)


def _numbers_of(pieces: Sequence[str], tokens: Sequence[re.Match[str]]) -> dict[int, int] | None:
    """Which of a line's numbers each token is, by the token's index; None if any number is no token of its own."""
    spans: dict[tuple[int, int], int] = {}
    for n, token in enumerate(tokens):
        if token["number"]:
            spans[token.span("number")] = n
        elif token.lastgroup == "text":
            spans[token.start() + 1, token.end() - 1] = n
    numbers: dict[int, int] = {}
    start = 0
    for n, piece in enumerate(pieces):
        if n % 2:
            token_at = spans.get((start, start + len(piece)))
            if token_at is None:
                return None
            numbers[token_at] = n // 2
        start += len(piece)
    return numbers


def is_count(value: float) -> bool:
    """Whether a number may count something: whole, not negative, and not so large that it is rounded."""
    return 0 <= value < 1 << 53 and value == int(value)


def _count(token: re.Match[str]) -> int:
    value = _value(token)[0] or 0.0
    return int(value) if 0 <= value < 1 << 53 else 0


def _value(token: re.Match[str]) -> tuple[float | None, int]:
    """The number of a token, and the total of a share in quotes."""
    if token.lastgroup == "text":
        share = _SHARE.match(token[0][1:-1])
        return (float(share[1]), int(share[2])) if share else (_float(token[0][1:-1]), 0)
    value = _float(token["number"])
    return (None if value is None else value * _MULTIPLES.get(token["unit"] or "", 1.0)), 0


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text.replace(",", ""))
    except ValueError:  # or a Float32 of Julia: 1.5f-3
        return _float(text.replace("f", "e")) if "f" in text else None


def by_same_name(names: Iterable[str]) -> dict[str, str]:
    """Declared metrics by the form in which `same_name` compares them."""
    return {same_name(name): name for name in names if same_name(name)}


def as_declared(metrics: Mapping[str, float], names: Mapping[str, str], heading: str = "") -> dict[str, float]:
    """The metrics, those that are declared under their declared names. `names`: see `by_same_name`.

    The others have their line's heading before them, unless they say themselves that they are of held-out data.
    """
    if not names and not heading:
        return dict(metrics)
    return {
        names.get(same_name(heading + name))
        or names.get(same_name(name))
        or (name if is_validation(name) else heading + name): value
        for name, value in metrics.items()
    }


def plausible(metrics: Mapping[str, float], names: Mapping[str, str]) -> int:
    """2 if a declared metric is among these, 1 if any name is one that training programs use, 0 otherwise."""
    if names and any(same_name(name) in names for name in metrics):
        return 2
    return int(any(map(known_metric, metrics)))


_FRAMED = "|\u2502\u2503"
_ALIGNED, _BLANKS = LazyPattern(r"\s{2,}"), LazyPattern(r"\s+")
_ARROWS = LazyPattern(r"\s*(?:->|=>|\u2192)\s*")
_SIGNS = tuple((sign, LazyPattern(re.escape(sign))) for sign in (",", "\t", ";", "|"))
_COLUMN = LazyPattern(r"(?:#|[^\W\d][\w ./@%#-]{0,60})\Z")
_WIDE_COLUMN = LazyPattern(r"(?:#|[^\W\d](?:[\w ./@%#()-]|:(?=\S)){0,60})?\Z")  # `Box(P`, `mAP@.5:.95`; or none
_ROW_BAR = LazyPattern(r":?\s+\d{1,3}%\|.*")
_STEP_WORD = LazyPattern(r"step|iter|epoch|episode|update|gen|round|batch|frame|#", re.I)
_RULE = LazyPattern(r"[-+=:\s|\u2500-\u257f]*\Z")
_WHOLE = frozenset(("all", "overall", "total"))  # names of a row that holds what the table is about


def header(text: str) -> Table | None:
    """The table that a CSV header, or the head of an aligned table, begins; None for any other line."""
    wide = "  " in text or "\t" in text or bars(text) > 3
    if len(text) > 2000 or not (wide or _STEP_WORD.search(text)):
        return None
    text = _ROW_BAR.sub("", text) if "%|" in text else text
    if "=" in text or "{" in text or _NUMBER.search(text):
        return None
    for separator, cells in _split(text, aligned=not _STEP_WORD.search(text)):
        wide = separator in (None, _ALIGNED)
        if len(cells) < 2 or not all(map((_WIDE_COLUMN if wide else _COLUMN).match, cells)):
            continue
        table = Table(cells)
        if table.steps < len(cells) and (table.steps or (wide and len(cells) >= 3 and table.measures)):
            if separator is not _BLANKS or len(cells) >= 3:
                return table
    return None


def _split(text: str, *, aligned: bool = False) -> Iterator[tuple[LazyPattern | None, list[str]]]:
    """The cells of a line, for each separator that it has; None for bars around all of them. `aligned`: only these."""
    if bars(text) > 3:  # a logger's prefix may stand before the first
        framed = re.split(rf"[{_FRAMED}]", text)[1:-1]
        yield None, [cell.strip(" \"'") for cell in framed]
        return
    separators = [_ARROWS] if ">" in text or "\u2192" in text else []
    separators += [pattern for sign, pattern in _SIGNS if sign in text]
    text = text.strip(" |")
    for separator in (_ALIGNED,) if aligned else (*separators, _ALIGNED, _BLANKS):
        yield separator, [cell.strip(" \"'") for cell in separator.split(text)]


class TableRow(ParsedLine):
    """A row, or several, of a table that has no column for the step. `dump`: whether each is a metric and its value."""

    __slots__ = ()


class Table:
    """A table below its header. `steps`: how many of its columns may hold the step.

    Without one, a word at the beginning of a row names it; where columns are called metric and value, a row is a pair.
    """

    __slots__ = ("above", "columns", "steps", "value_at")

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = [(name if "(" in name else name.rstrip(")")).replace(" ", "_") for name in columns]
        self.steps = sum(step_rank(name) is not None for name in self.columns)
        lower = [name.lower() for name in self.columns]
        self.value_at = lower.index("value") if "metric" in lower and "value" in lower else -1
        self.above: list[str] = []  # the cells of the row above

    @property
    def measures(self) -> bool:
        """Whether it says, by the names of its columns, that it holds metrics."""
        return self.value_at > 0 or any(map(known_metric, self.columns))

    def row(self, text: str) -> ParsedLine | None:
        """A row; None if the line has not one cell a column, most of them numbers."""
        text = _ROW_BAR.sub("", text) if "%|" in text else text
        cells = next((cells for _, cells in _split(text) if len(cells) == len(self.columns)), None)
        if cells is None:
            return None
        if not self.steps and self.value_at > 0:
            return self._one_value(cells)
        values = [_cell_value(cell) for cell in cells]
        if sum(value is not None for value in values) * 2 <= sum(map(bool, cells)):
            return None
        line, prefix = ParsedLine(), ""
        if not self.steps:
            if values[0] is not None or not cells[0]:
                return None
            line, prefix = TableRow(), "" if cells[0].lower() in _WHOLE else f"{cells[0].replace(' ', '_')}/"
        for name, value in zip(self.columns, values):  # noqa: B905
            if value is not None and name:
                line.add(prefix + name, value)
        return line if line.metrics and (line.steps or not self.steps) else None

    def _one_value(self, cells: list[str]) -> ParsedLine | None:
        """`|arc_easy|1|none|0|acc|0.6263|` is arc_easy/acc = 0.6263; an empty first cell is that of the row above."""
        cells[0] = cells[0] or (self.above[0] if self.above else "")
        self.above = cells
        value = _cell_value(cells[self.value_at])
        names = [cell for cell in cells[: self.value_at] if _COLUMN.match(cell) and cell.lower() not in _LITERALS]
        if value is None or not names:
            return None
        line = TableRow()
        line.dump = True
        line.metrics["/".join(names).replace(" ", "_")] = value
        return line


class Tables:
    """The tables of one output, line by line."""

    __slots__ = ("rows", "steps")

    def __init__(self) -> None:
        self.steps: Table | None = None  # the last with a column for the step, whose rows may stand anywhere
        self.rows: Table | None = None  # one without, of which the next line may be a row

    def begins(self, cells: str) -> bool:
        """Whether a line is the header of a table."""
        table = header(cells)
        if table is not None:
            self.steps, self.rows = (table, None) if table.steps else (self.steps, table)
        return table is not None

    def row(self, cells: str) -> ParsedLine | None:
        """A line as a row; None for any other, which ends a table without steps."""
        if self.rows is not None:
            row = self.rows.row(cells)
            if row is not None:
                return row
            if not self.goes_on(cells):
                self.rows = None
        return self.steps.row(cells) if self.steps is not None else None

    def goes_on(self, cells: str) -> bool:
        """Whether a line only draws a part of the frame of a table that has begun."""
        return self.rows is not None and bool(cells) and bool(_RULE.match(cells))


def _cell_value(cell: str) -> float | None:
    share = _SHARE.match(cell)
    return float(share[1]) if share else _float(cell.rstrip("%")) if cell else None


def bars(text: str) -> int:
    """How many bars a line has that ends with one; 0 for any other."""
    return sum(map(text.count, _FRAMED)) if text[-1:] in _FRAMED and text else 0
