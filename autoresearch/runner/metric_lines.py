"""Reads one line of a log as metrics, whatever program printed it: `iter 100 | loss 0.5`, `{'loss': 0.5}`, a tqdm bar.

The text before a number names it, with or without a colon or an equals sign between them; programs print the same texts
again and again, so each is understood once. What a line may look like is listed, with real output, in
tests/samples/formats. Which lines of a log carry the steps is decided by `step_finder`, which sees all of them.
"""

from __future__ import annotations

import json
import math
import re
from collections import namedtuple
from functools import lru_cache

from .basics import LazyPattern
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
# settings, or a result printed above: Namespace(step=10, ...); set -x, diffs; W&B's summary, which rounds what was
# logged before; dots that lead from an option to its value; pycocotools: `Average Recall (AR) @[ IoU=0.50:0.95 | ...`
_NO_METRICS = LazyPattern(r"\A\s*\++ |\Awandb: |(?<=\w)\([A-Za-z_]\w*=|\.{5}|@\[")

_PREFIXES = LazyPattern(
    r"\s*(?:"
    rf"{LABEL}"
    r"|\[\d{4}-\d\d-\d\d (?![^\]]*(?:step|iter|epoch))[^\]]{1,120}\]"  # [2021-04-12 13:40:59 train.py line 9]
    r"|\[?(?:\d{4}[-/])?\d\d[-/]\d\d(?:[T ,]+\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\]?"
    r"|\[?\d{4}[-/]\d\d[-/]\d\d\]?"
    r"|\[?\d\d?:\d\d:\d\d(?:[.,]\d+)?(?:\s?[AP]M)?\]?"
    r"|[IWED]\d{4} \d\d:\d\d:\d\d(?:\.\d+)?\s+\d+(?: [\w./-]+:\d+\])?"  # glog
    r"|\[?(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|TRACE)\b\]?:?"
    r"|(?:[IWEF] |\()?[\w./<>-]+\.(?:py|cc|cpp|cu|h)[: ]\d+[\])]?:?"  # file.py:12
    r"|[A-Za-z_][\w.]*:[\w<>.]+:\d+"  # loguru's module:function:line
    r"|\([a-z]\w*:\d+\)(?=\s[A-Z]+:)"  # (trainer:243) INFO:
    r"|\[[A-Za-z_][\w.:-]{0,60}\](?=\s)|[a-z_][\w]*(?:\.\w+)+(?=\s-|:)"  # [logger], package.logger
    r"|[-:|\u2022\u25cf*>=#\u2728\ufeff]+(?=\s|$)|\ufeff|->|=>|\u2192"
    r")\s*"
)
_MOST_PREFIXES = 10

_LEADING = LazyPattern(r"\[(?P<n>\d{1,9})\]\s+|(?P<m>\d{1,9})(?::\s+|\s*(?:->|=>|\|)\s*)")
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
_BAR_TIME = LazyPattern(r"[\d:?]+<[^,\]]*,[^,\]]*,?\s*")

_FLOAT = (
    r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+\.\d+f[-+]?\d+|\d+\.?\d*(?:[eE][-+]?\d+)?"
    r"|\.\d+(?:[eE][-+]?\d+)?|(?i:nan|inf|infinity)(?![\w/.-]))"
)
_ALONE = LazyPattern(rf"{_FLOAT}\Z")
_PRINTED = LazyPattern(rf"(.{{1,200}}?):(?:(?:np\.\w+|tensor)\()?({_FLOAT})(?![a-z0-9_.:])")
_TOKEN = LazyPattern(
    rf"""
    (?<![\w.@/-])(?P<name>[^\W\d][\w.@/-]*(?:\([^()\s]{{1,60}}\)|\[[^\[\]\s]{{1,40}}\]|(?<=\w)=\w+)+(?=\s*[:=]\s*[-+.\dn]))
  | "[^"]*"(?!\s*,) | (?<!\w)'[^']*'(?!\s*,)
  | \d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d[\d.,:+Z-]*)? | \d+:\d\d(?::\d\d)?(?:[.,]\d+)?(?!\d)
  | \d+(?:\.\d+){{2,}}[\w.+-]*
  | 0[xX][0-9a-fA-F]+ | (?![1-9]\d{{0,2}}(?:,\d{{3}})+(?![\d,]))\d+(?:,\d+)+
  | https?://\S+ | (?<!\w)\.{{0,2}}/[\w./-]+
  | (?<![\w.@%*$+/-])(?P<number>{_FLOAT})(?P<unit>%|[A-Za-z\u00b5\u03bc][\w%]*(?:/[A-Za-z]\w*)?)?
    (?:\s*/\s*(?P<total>\d+)(?![\d.:/])(?P<odd>[A-Za-z]*))?
""",
    re.X,
)
_SEPARATOR = LazyPattern(r"\s*(?:[:=]+|->|=>|\u2192|(?<=\s)(?:is|was))\s*\Z")
_BREAK = LazyPattern(
    r"[,;|{}\t\u2502\u2503!?]|\s{3,}|(?<![\w-])-+(?=\s|$)|:+(?=\s|$)|->|=>|\u2192|(?<!\w)[(\[]|^\]|\](?=[\s\[])|^\)"
)
_ASIDE = LazyPattern(r"\s+\([^()]{0,40}\)\s*\Z")  # `elapsed time (ms)`
_UNIT = LazyPattern(
    r"\s?(?:%|(?:s|secs?|seconds|ms|us|mins|minutes|h|hrs?|hours|percent|\w{1,9}/\w+)\b\.?)(?=[\s,;:|)\]]|\Z)"
)
_SECTION = LazyPattern(r"(?<!\w)\[(train|val|valid|validation|eval|test|dev)\]", re.I)
_WORD = LazyPattern(r"[^\W\d]\S*\Z")
_PERCENT = LazyPattern(r"\s*\(\d[\d.]*%")
_SHARE = LazyPattern(r"(\d{1,12})/(\d{1,12})\Z")  # ms-swift: 'global_step/max_steps': '5/60'
_DIGITS = LazyPattern(r"\d+")
_NUMBER = LazyPattern(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)")
_MEANING = LazyPattern(
    r"\d[-,:]\d|\d(?:\.\d+){2}"
)  # 1,200; 2026-11-24; 12:30: how many digits there are tells what it is
_plans: dict[str, _TextPlan] = {}  # by a text with a zero for each of its numbers
_MOST_PLANS = 1 << 10
_MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6}
_PYTHON = {"None": "null", "True": "true", "False": "false", "nan": "NaN", "-nan": "NaN", "inf": "Infinity"}
_PYTHON_WORD = LazyPattern(r"(?<![\w\"])(?:None|True|False|-?nan|inf)(?![\w\"])")


class ParsedLine:
    """The pairs of one line.

    `steps`: every number that may be the step, by name, as (value, total); `total` is 0 where none is named.
    `metrics`: the other pairs. `bare`: whether the line consists of its pairs, and is no prose around a number.
    `dump`: whether it is a whole dict or JSON object, which is printed on purpose. `heading`: "test/" of
    `Test set: loss 0.5`, whose loss is not the one that is trained. `counters`: every number that may be its step, by
    name, those of lines above it too. `at`, `text`: when it was read, and what it says.
    """

    __slots__ = ("at", "bare", "counters", "dump", "empty", "heading", "metrics", "steps", "text")

    def __init__(self) -> None:
        self.steps: dict[str, tuple[int, int]] = {}
        self.metrics: dict[str, float] = {}
        self.bare = True
        self.dump = False
        self.heading = self.text = ""
        self.at = 0.0
        self.counters: dict[str, int] = {}
        self.empty: list[str] = []  # names in a dict whose value is None

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
    word = re.split(r"[/.]", name.removesuffix("/max_steps").lower())[-1]
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


def is_count(value: float) -> bool:
    """Whether a number may count something: whole, not negative, and not so large that it is rounded."""
    return 0 <= value < 1 << 53 and value == int(value)


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
    if not text or len(text) > LONGEST:
        return None
    if _NO_METRICS.search(text):
        return None
    if "(" in text and ("np." in text or "tensor(" in text or "array(" in text or "torch." in text):
        text = _WRAPPED.sub(r"\1", text)
    if " last " in text or "(last " in text or " over " in text or " of " in text:
        text = _WINDOW.sub("", text)
    line = ParsedLine()
    bar = _BAR.match(text) if "[" in text and "|" in text else None
    if bar is not None:
        rest = bar["rest"]
        time = _BAR_TIME.match(rest)
        _read_pairs(bar["title"], line)
        line.metrics = {name: value for name, value in line.metrics.items() if known_metric(name)}
        _read_pairs(rest[time.end() :] if time else "", line)
        line.steps.setdefault(BAR, (int(bar["n"]), int(bar["total"])))
        line.bare = True
        return line if line.metrics else None
    leading = _LEADING.match(text)
    if leading:
        text = body(text[leading.end() :])
    if "{" in text and not _read_object(text, line):
        return None
    if not line.dump:
        line.bare = _read_pairs(text, line) and not _ARITHMETIC.search(text)
    if leading and not line.steps:
        line.steps[LEADING] = (int(leading["n"] or leading["m"]), 0)
    if "train_runtime" in line.metrics:  # Hugging Face's summary at the end, whose values are those of no step
        return None
    prose = not line.bare and len(text) > _PROSE_FROM  # in which a declared metric may stand
    return line if line.steps or line.metrics or prose else None


def metrics_of(text: str) -> Mapping[str, float]:
    """All pairs of a text that is known to hold some, with those that name a step; NaN where a dict has None."""
    if text.startswith(" - ") and (pairs := _dashed(text)):
        return pairs
    line = parse(text)
    if line is None:
        return {}
    steps = {name: float(value) for name, (value, total) in line.steps.items() if name != BAR and not total}
    return {**dict.fromkeys(line.empty, math.nan), **line.metrics, **steps}


def _dashed(text: str) -> dict[str, float]:
    """verl's ` - key:value - key:value`: a hundred pairs on a line, whose names may hold colons and blanks."""
    pairs = {}
    for part in text.replace("np.float64(", "").removeprefix(" - ").split(" - "):
        name, _, printed = part.rpartition(":")
        value = _float(printed.rstrip(")")) if " " not in name else None
        if value is None and (found := _PRINTED.match(part)):  # other output follows, or a name with blanks
            name, value = found[1], _float(found[2])
        if name and value is not None:
            pairs[name] = value
    return pairs


def object_of(text: str) -> dict[str, object] | None:
    """A JSON object, or a dict as Python prints it; None for any other text, and one that is torn. Nothing is run."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    if '"' not in text:
        text = _PYTHON_WORD.sub(lambda found: _PYTHON[found[0]], text.replace("'", '"'))
    try:
        value = json.loads(_WRAPPED.sub(r"\1", text) if "(" in text else text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read_object(text: str, parsed: ParsedLine) -> bool:
    """Read the dict or JSON object that ends a line, with the step before it: `eval 3: {...}`. False if it is torn."""
    start = text.index("{")
    if not text.endswith("}"):
        return "'" not in text[start:] and '"' not in text[start:]
    fields = object_of(text[start:])
    if fields is None:
        return "'" not in text[start:] and '"' not in text[start:]
    head = ParsedLine()
    parsed.dump, parsed.bare = True, _read_pairs(text[:start], head)
    parsed.steps.update(head.steps)
    if head.metrics and text[start - 2 : start] in (": ", "={"):
        name, value = head.metrics.popitem()
        if is_count(value):
            parsed.steps[name] = (int(value), 0)
    _add_fields("", fields, parsed)
    return True


def _add_fields(above: str, fields: dict[str, object], parsed: ParsedLine) -> None:
    for key, value in fields.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            _add_fields(f"{name}/", value, parsed)
        elif value is None:
            parsed.empty.append(name)
        elif isinstance(value, str) and (share := _SHARE.match(value)):
            parsed.add(name, float(share[1]), int(share[2]))
        elif isinstance(value, str) and (number := _float(value)) is not None:
            parsed.add(name, number)
        elif isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
            parsed.add(name, float(value) if isinstance(value, float) or abs(value) < 1 << 1000 else math.inf)


# The text before a number: what it names; whether a colon, an equals sign or an arrow stands before the number; words
# that name nothing; `valid` of `[train] loss=0.5 [valid] loss=0.6`.
_Gap = namedtuple("_Gap", "name explicit lost section")


@lru_cache(maxsize=1 << 13)
def _gap(text: str, behind: bool = False) -> _Gap:
    """What a text says of the number that follows; `behind`: another number, and perhaps its unit, stands before it."""
    unit = _UNIT.match(text) if behind else None
    if unit and text[unit.end() :].strip(" ([{"):  # but `h 0.9` names a number
        text = text[unit.end() :]
    section = _SECTION.findall(text)
    within = section[-1].lower() if section else None
    head = text.rstrip("[({'\" #")
    separator = _SEPARATOR.search(head)
    explicit = separator is not None
    glued = explicit and separator[0][:1] == "="  # `level=info step=5`
    head = _ASIDE.sub("", head[: separator.start()] if separator else head)
    cut = max((found.end() for found in _BREAK.finditer(head)), default=0)
    words = [word.strip("*\"'").rstrip(".") for word in head[cut:].split()]
    words = [word for word in words if _WORD.match(word)]
    lost = 0 if within is not None else _lost(head[:cut], behind)
    if glued and words:
        words = words[-2:] if words[-2:-1] and words[-2].lower() in _QUALIFIERS else words[-1:]
    prose = any(word.lower() in _PROSE for word in words)
    if explicit:
        named = 0 < len(words) <= (_MOST_WORDS if prose else _MOST_PLAIN_WORDS)
    else:
        if (len(words) > _FEW_WORDS or (len(words) > 1 and prose)) and step_rank(words[-1]) is not None:
            words, prose = words[-1:], False  # `reward: 0.5 at episode 3`
        few = sum(word.lower() not in _QUALIFIERS for word in words)  # `mean training accuracy 0.5`
        named = 0 < len(words) <= _MOST_WORDS and few <= _FEW_WORDS and not prose
        if named and text.endswith(("[", "#")) and step_rank(words[-1].partition("(")[0]) is None:
            named = False  # `test_loss[0]`, `output #0: accuracy`
    if not named:
        return _Gap("", explicit, 0 if text.endswith(" #") else lost + len(words), within)
    return _Gap("_".join(words).strip("_:."), explicit, lost, within)


def _lost(text: str, behind: bool) -> int:
    """How many words name nothing; right behind a number stands its unit."""
    unit = _UNIT.match(text) if behind else None
    words = text[unit.end() :].split() if unit else text.split()
    return sum(_WORD.match(word) is not None and not {"=", "/"} & {*word} for word in words)


# A pair of a text: which of its numbers it is, which is its total (-1: none), and whether it is a share in percent.
_Pair = namedtuple("_Pair", "name at of factor percent")
# What a text holds, whatever its numbers are.
_TextPlan = namedtuple("_TextPlan", "pairs bare")


def _read_pairs(text: str, parsed: ParsedLine) -> bool:
    """Add the pairs of a text to a line; whether it consists of them.

    Texts that differ in their digits alone are read alike, so that only the first is read token by token.
    """
    if len(text) > _PROSE_FROM and text.count(" ") > _MOST_PLAIN_WORDS * (sum(map(str.isdigit, text)) + 1):
        return False
    shape = _DIGITS.sub("0", text)
    plan, numbers = _plans.get(shape), _NUMBER.findall(text)
    if plan is None:
        tokens, plan = _plan_of(text)
        places = {found.start(): n for n, found in enumerate(_NUMBER.finditer(text))}
        places = {start: n for start, n in places.items() if tokens.get(start) == numbers[n]}
        where, numbers = list(tokens), list(tokens.values())
        if places.keys() == tokens.keys() and not _MEANING.search(text):
            own = {-1: -1, **{n: places[start] for n, start in enumerate(where)}}
            if len(_plans) >= _MOST_PLANS:
                _plans.clear()
            kept = [pair._replace(at=own[pair.at], of=own[pair.of]) for pair in plan.pairs]
            _plans[shape] = _TextPlan(kept, plan.bare)
    for name, at, of, factor, percent in plan.pairs:
        value, total = (_float(numbers[at]) or 0.0) * factor, int(numbers[of]) if of >= 0 else 0
        if percent and total:
            parsed.metrics.setdefault(name, 100 * value / total)
        elif name != BAR or is_count(value):
            parsed.add(name, value, total)
    return bool(plan.bare)


def _plan_of(text: str) -> tuple[dict[int, str], _TextPlan]:
    """The numbers of a text by where they begin, and what it says of them."""
    numbers: dict[int, str] = {}
    pairs: dict[str, _Pair] = {}
    start = lost = 0
    section: str | None = None
    last, list_of, counted = "", "", False
    for token in _TOKEN.finditer(text):
        number, share = token["number"], token["total"]
        if token["name"]:
            continue
        gap = _gap(text[start : token.start()], bool(start))
        if number is None:  # a date, a path, a quoted text
            lost += gap.lost + (0 if gap.explicit or not gap.name else 1)
            start, last, list_of = token.end(), "", ""
            continue
        if number[-1] in "nNfFyY" and not gap.explicit and not known_metric(gap.name):
            continue  # `number of nan iterations: 0`
        between = text[start : token.start()].strip()
        start, lost = token.end(), lost + gap.lost
        if gap.section == "train":
            section = ""
        elif gap.section and section is not None:
            section = f"{gap.section}/"
        name, unit, at = gap.name, token["unit"] or "", len(numbers)
        numbers[token.start("number")] = number
        if share:
            numbers[token.start("total")] = share
        if not name and counted and last and not share:
            if between in (":", "="):  # `Validation loss 7: 0.5`
                name = last if step_rank(last) is None else ""
            elif not between and "." in number and known_metric(last) and step_rank(last) is None:
                name = last  # `Train loss 7 0.52`
            if name == last:
                pairs.pop(last, None)
        rank = step_rank(name)
        if share and (not name or (between[-1:] == "[" and rank is None)):  # `Test: [30/100] loss 0.5`
            within = between[-1:] == "(" and last  # `accuracy: 55% (55/100)`
            name, rank = "" if token["odd"] or within else BAR, RANK[BAR]
        elif not name and number.isdecimal() and unit in RANK:  # `7epoch results: ...`
            name, rank = unit, RANK[unit]
        elif rank is not None and not gap.explicit and next(reversed(pairs), "")[:4].lower() == "best":
            name = ""  # `best loss 0.5 at epoch 3`
        elif not name and list_of and between in (",", ""):  # a list is no metric
            pairs.pop(list_of, None)
        key = name if rank is not None else f"{section or ''}{name}"
        if name and key not in pairs:
            percent = rank is None and bool(share) and _PERCENT.match(text, token.end()) is not None
            pairs[key] = _Pair(key, at, at + 1 if share else -1, _MULTIPLES.get(unit, 1.0), percent)
        list_of = name if between[-1:] == "[" else list_of if not name and between in (",", "") else ""
        last, counted = name, number.isdecimal() and not gap.explicit and not share
    lost += _lost(text[start:], bool(start))
    return numbers, _TextPlan(list(pairs.values()), lost <= max(2, len(pairs)))


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text.replace(",", ""))
    except ValueError:  # or a Float32 of Julia: 1.5f-3
        return _float(text.replace("f", "e")) if "f" in text else None


def value_of(text: str) -> float | None:
    """The number that a text is, as Python, numpy or torch print it; None for any other text."""
    found = _ALONE.match(_WRAPPED.sub(r"\1", text.strip()))
    return _float(found[0]) if found else None


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
_VALUES = LazyPattern(r"(?<![\w.@/#%*$+-])[-+]?\d")
_ROW_BAR = LazyPattern(r":?\s+\d{1,3}%\|.*")
_STEP_WORD = LazyPattern(r"step|iter|epoch|episode|update|gen|round|batch|frame|#", re.I)
RULE = LazyPattern(r"[-+=:\s|*_~\u2500-\u257f]*\Z")  # a line that only draws
_WHOLE = frozenset(("all", "overall", "total", "value"))  # names of a row that holds what the table is about


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
    """A row of a table that has no column for the step. `dump`: whether it is one metric and its value."""

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
        self.value_at = lower.index("value") if "metric" in lower and "value" in lower else 0
        self.above: list[str] = []  # the cells of the row above

    @classmethod
    def below(cls, text: str) -> Table | None:
        """The table that a CSV header, or the head of an aligned table, begins; None for any other line."""
        wide = "  " in text or "\t" in text or bars(text) > 3
        if len(text) > 2000 or not (wide or _STEP_WORD.search(text)):
            return None
        text = _ROW_BAR.sub("", text) if "%|" in text else text
        if "=" in text or "{" in text or _VALUES.search(text):
            return None
        for separator, cells in _split(text, aligned=not _STEP_WORD.search(text)):
            wide = separator in (None, _ALIGNED)
            if len(cells) < 2 or not all(map((_WIDE_COLUMN if wide else _COLUMN).match, cells)):
                continue
            table = cls(cells)
            measures = wide and len(cells) >= 3 and (table.value_at or any(map(known_metric, table.columns)))
            if table.steps < len(cells) and (table.steps or measures) and (separator is not _BLANKS or len(cells) >= 3):
                return table
        return None

    def row(self, text: str) -> ParsedLine | None:
        """A row; None if the line has not one cell a column, most of them numbers."""
        text = _ROW_BAR.sub("", text) if "%|" in text else text
        cells = next((cells for _, cells in _split(text) if len(cells) == len(self.columns)), None)
        if cells is not None and self.value_at and not self.steps:
            return self._one_value(cells)
        values = [_cell_value(cell) for cell in cells or ()]
        if cells is None or sum(value is not None for value in values) * 2 <= sum(map(bool, cells)):
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
        names = [cell for cell in cells[: self.value_at] if _COLUMN.match(cell) and cell.lower() != "none"]
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
        table = Table.below(cells)
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
        return self.rows is not None and bool(cells) and bool(RULE.match(cells))


def _cell_value(cell: str) -> float | None:
    share = _SHARE.match(cell)
    return float(share[1]) if share else _float(cell.rstrip("%")) if cell else None


def bars(text: str) -> int:
    """How many bars a line has that ends with one; 0 for any other."""
    return sum(map(text.count, _FRAMED)) if text[-1:] in _FRAMED and text else 0
